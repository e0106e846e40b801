// Every template with several conversations against Python's Jinja2 itself, set up as transformers does it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "model/chat_template/chat_template.h"
#include "model/testing/fixed_day.h"

namespace butterfly::model {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

const fs::path kFolder = shared_data("chat-templates");

// Writes one line of JSON per rendering: the template, the variables and the text (null for an error).
// Jinja's sandbox refuses to change lists, which some published templates do: `changes` says that the text
// comes from a sandbox that lets them.
constexpr const char* kScript = R"py(import datetime, glob, json, sys
from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedEnvironment, SecurityError

folder, out = sys.argv[1:]
def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)
def raise_exception(message):
    raise ValueError(message)
class Generation(Extension):
    tags = {"generation"}
    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return nodes.CallBlock(self.call_method("text"), [], [], body).set_lineno(line)
    def text(self, caller):
        return caller()
def made(kind):
    environment = kind(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, Generation])
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda f: datetime.datetime(2025, 7, 10, 12).strftime(f)
    return environment
strict, changing = made(ImmutableSandboxedEnvironment), made(SandboxedEnvironment)

def user(text): return {"role": "user", "content": text}
def system(text): return {"role": "system", "content": text}
def assistant(text, **more): return {"role": "assistant", "content": text, **more}
def call(arguments, name="weather"):
    return [{"id": "abcdefghi", "type": "function", "function": {"name": name, "arguments": arguments}}]
answer = {"role": "tool", "tool_call_id": "abcdefghi", "name": "weather", "content": "{\"sky\": \"cl\u00e9ar\"}"}
tool = {"type": "function", "function": {"name": "weather", "description": "Tells the <weather>\nof a \"place\".",
    "parameters": {"type": "object", "required": ["place"], "properties": {
        "place": {"type": "string", "description": "Where & when"},
        "days": {"type": "array", "items": {"type": "integer"}},
        "unit": {"type": "string", "enum": ["C", "F"]},
        "more": {"type": "object", "properties": {"deep": {"type": ["number", "null"]}}}}}}}
conversations = [
    [user("Hi")],
    [system(" Be kind.\n"), user("  Hi\n"), assistant("Hello"), user("Na\u00efve? \U0001f98b <b>'\"")],
    [user("a"), assistant("<think>\nhm\n</think>\n\nb"), user("c"), assistant("d")],
    [system("s"), user("w?"), assistant("", tool_calls=call({"place": "Z\u00fcrich", "days": [1, 2]})), answer],
    [user("w?"), assistant(None, tool_calls=call({"place": "Rome", "more": {"deep": 1.5}})), answer,
     assistant("It is clear."), user("And now?")],
    [user("w?"), assistant("", tool_calls=call("{\"place\": \"Oslo\"}")), answer, assistant("Cold.")],
    [user("w?"), assistant("x", reasoning_content="r", tool_calls=call({}) + call({"n": None, "t": True})), answer, answer],
    [user([{"type": "text", "text": "part"}, {"type": "text", "text": "two"}]), assistant("ok")],
    [system("s"), assistant("first"), user("u")],
    [],
]
templates = {f.split("/")[-1]: open(f, newline="").read() for f in sorted(glob.glob(folder + "/llamacpp/*.jinja"))}
for row in json.load(open(folder + "/huggingface-js/e2e.json")):
    templates[row["name"] + " " + row["group"]] = row["chat_template"]
with open(out, "w") as lines:
    for name, source in templates.items():
        template = strict.from_string(source)
        for messages in conversations:
            for tools in (None, [tool]):
                for prompt in (False, True):
                    variables = {"messages": messages, "add_generation_prompt": prompt, "tools": tools,
                                 "bos_token": "<s>", "eos_token": "</s>"}
                    text, error, changes = None, None, False
                    try:
                        text = template.render(**variables)
                    except SecurityError:
                        text, changes = changing.from_string(source).render(**json.loads(json.dumps(variables))), True
                    except Exception as e:
                        error = repr(e)
                    lines.write(json.dumps({"name": name, "source": source, "variables": variables, "text": text,
                                            "error": error, "changes": changes}) + "\n")
)py";

// Debian's python with its python3-jinja2, or another one that has it.
std::string find_python() {
  for (const char* python : {"/usr/bin/python3", "python3"})
    if (std::system((std::string(python) + " -c 'import jinja2' 2>/dev/null").c_str()) == 0) return python;
  return "";
}

TEST(ChatTemplateOracle, JinjaGivesTheSameTexts) {
  if (!fs::exists(kFolder)) GTEST_SKIP() << "no " << kFolder;
  const std::string python = find_python();
  if (python.empty()) GTEST_SKIP() << "no python3-jinja2";
  const butterfly::testing::TempDir folder;
  std::ofstream(folder.path() / "oracle.py") << kScript;
  const fs::path lines = folder.path() / "lines.json";
  const std::string command = python + " '" + (folder.path() / "oracle.py").string() + "' '" +
                              kFolder.string() + "' '" + lines.string() + "'";
  ASSERT_EQ(std::system(command.c_str()), 0);
  std::ifstream in(lines);
  size_t texts = 0, errors = 0;
  for (std::string line; std::getline(in, line);) {
    const Json row = json_of_text<Json>(line);
    const std::string variables = json_text(row["variables"]);
    const std::string place = row["name"].get<std::string>() + " with " + variables.substr(0, 600);
    try {
      const auto chat = ChatTemplate::compile(row["source"].get<std::string>());
      const std::string text = chat.render_variables(variables, fixed_day());
      if (row["text"].is_null()) {
        ADD_FAILURE() << place << ": expected the error " << row["error"] << ", found " << text;
      } else {
        EXPECT_EQ(text, row["text"].get<std::string>()) << place;
      }
    } catch (const Error& error) {
      EXPECT_TRUE(row["text"].is_null() || row["changes"].get<bool>()) << place << ": " << error.what();
    }
    ++(row["text"].is_null() ? errors : texts);
  }
  EXPECT_EQ(texts + errors, 45u * 40u);
  EXPECT_GE(texts, 1000u);
}

}  // namespace
}  // namespace butterfly::model
