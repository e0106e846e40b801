"""Judges what clients saw, by the contract alone: it knows nothing of nodes, plans or faults.

A history is a file of lines, each a JSON object of one event of one stream: {"stream": 3, "prompt": 0, "t": 1.25, "event":
"begin" | "token" | "resume" | "done" | "left" | "error", ...}. A token has "token" and "logprob"; "left": its client went away.
"""
import json
import sys


def check(history, expected):
    """What is wrong, in words; empty: nothing. `expected`: for each prompt the tokens and logarithms of one machine."""
    wrong, streams = [], {}
    for number, event in enumerate(history):
        state = streams.setdefault(event["stream"], {"tokens": [], "open": False, "prompt": event.get("prompt")})
        kind = event["event"]
        place = f"event {number} of stream {event['stream']}"
        if kind == "begin":
            if state["open"] or state["tokens"]:
                wrong.append(f"{place}: begins twice")
            state["open"] = True
        elif not state["open"]:
            wrong.append(f"{place}: '{kind}' of a stream that is not open")
        elif kind == "token":
            want = expected[state["prompt"]]
            at = len(state["tokens"])
            got = [event["token"], event["logprob"]]
            if at >= len(want):
                wrong.append(f"{place}: token {at + 1} of {len(want)}: {got}")
            elif got != list(want[at]):
                wrong.append(f"{place}: token {at} is {got}, expected {list(want[at])}")
            state["tokens"].append(got)
        elif kind == "error":
            wrong.append(f"{place}: {event['text']}")
            state["open"] = False
        elif kind == "done":
            if len(state["tokens"]) != len(expected[state["prompt"]]):
                wrong.append(f"{place}: done after {len(state['tokens'])} of {len(expected[state['prompt']])} tokens")
            state["open"] = False
        elif kind == "left":
            state["open"] = False
        elif kind != "resume":
            wrong.append(f"{place}: '{kind}' is no event")
    wrong += [f"stream {name} never ended" for name, state in streams.items() if state["open"]]
    return wrong


def test():
    """The checker itself: it must see what it is there for."""
    want = [[["a", -1.0], ["b", -2.0]]]

    def stream(*events):
        return [{"stream": 1, "prompt": 0, **e} for e in events]

    begin, done, a, b = {"event": "begin"}, {"event": "done"}, {"event": "token", "token": "a", "logprob": -1.0}, \
        {"event": "token", "token": "b", "logprob": -2.0}
    assert check(stream(begin, a, {"event": "resume"}, b, done), want) == []
    assert check(stream(begin, a, {"event": "left"}), want) == []
    for bad in ([begin, a, {"event": "left"}, b], [begin, a, done], [begin, a, a, b, done], [begin, a, b, b, done], [begin, b, a, done], [begin, a, b], [a],
                [begin, a, {**b, "logprob": -2.5}, done], [begin, a, {"event": "error", "text": "x"}], [begin, begin, a, b, done],
                [begin, a, b, done, b]):
        assert check(stream(*bad), want), bad


if __name__ == "__main__":
    test()
    if len(sys.argv) == 3:
        found = check([json.loads(line) for line in open(sys.argv[1])], json.load(open(sys.argv[2])))
        print("\n".join(found) or "nothing is wrong")
        sys.exit(bool(found))
