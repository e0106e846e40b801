// Templates by hand values, and what hostile ones may cost.
#include "model/chat_template/chat_template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace butterfly::model {
namespace {

using ::testing::HasSubstr;

std::string render(std::string_view source, std::string_view variables = "{}") {
  return ChatTemplate::compile(source).render_variables(variables);
}

std::string error_of(std::string_view source, std::string_view variables = "{}") {
  try {
    return "no error, but: " + render(source, variables).substr(0, 100);
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(ChatTemplate, RendersMessages) {
  const auto chat = ChatTemplate::compile(
      "{{ bos_token }}{% for m in messages %}\n<{{ m.role }}>{{ m['content'] | trim }}\n{% endfor %}\n"
      "{% if add_generation_prompt %}<assistant>{% endif %}{{ tools is none }}");
  const char* messages = R"([{"role": "user", "content": " hi "}, {"role": "assistant", "content": "yo"}])";
  EXPECT_EQ(chat.render(messages, "", {.bos_token = "<s>"}).text,
            "<s><user>hi\n<assistant>yo\n<assistant>True");
  EXPECT_EQ(chat.render(messages, "[]", {.add_generation_prompt = false}).text,
            "<user>hi\n<assistant>yo\nFalse");
}

TEST(ChatTemplate, WhiteSpaceControl) {
  EXPECT_EQ(render("a\n  {% if true %}\n b\n  {% endif %}\nc\n"), "a\n b\nc");
  EXPECT_EQ(render("a  {%- if true -%}  b  {%- endif +%}\nc"), "ab\nc");
  EXPECT_EQ(render("a\n  {%+ if true %}b{% endif %}"), "a\n  b");
  EXPECT_EQ(render("a {{- ' b ' -}} c"), "a b c");
  EXPECT_EQ(render("a\n  {# comment #}\nb {#- x -#} c"), "a\nbc");
  EXPECT_EQ(render("{% raw %} {{ x }} {% endraw %}!"), " {{ x }} !");
  EXPECT_EQ(render("a\r\nb\n\n"), "a\nb\n");
}

TEST(ChatTemplate, ArithmeticIsPythons) {
  EXPECT_EQ(render("{{ -7 // 2 }} {{ -7 % 3 }} {{ 7 % -3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ -2 ** 2 }}"),
            "-4 2 -2 3.5 1024 4");
  EXPECT_EQ(render("{{ 'ab' * 2 }} {{ [1] * 2 }} {{ 1.0 }} {{ 1e20 }} {{ 0.1 + 0.2 }} {{ true + 1 }}"),
            "abab [1, 1] 1.0 1e+20 0.30000000000000004 2");
  EXPECT_EQ(render("{{ 1 < 2 < 3 }} {{ 'a' in 'abc' }} {{ 2 not in [1] }} {{ 1 ~ 'x' ~ none }}"),
            "True True True 1xNone");
}

TEST(ChatTemplate, ScopesAndNamespaces) {
  EXPECT_EQ(render("{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + i %}{{ x }}{% endfor %}{{ x }}"),
            "231");
  EXPECT_EQ(
      render("{% set n = namespace(x=1) %}{% for i in [1, 2] %}{% set n.x = n.x + i %}{% endfor %}{{ n.x }}"),
      "4");
  EXPECT_EQ(render("{% set x %}a{{ 1 }}{% endset %}{{ x | upper }}"), "A1");
  EXPECT_EQ(render("{% macro m(a, b='z') %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}{{ m(b=2, a=3) }}"), "1z32");
  EXPECT_EQ(render("{% macro m() %}<{{ caller(1) }}>{% endmacro %}{% call(x) m() %}{{ x }}!{% endcall %}"),
            "<1!>");
  EXPECT_EQ(render("{% filter upper %}a{% endfilter %}"), "A");
}

// What Jinja2 3.1 gives.
TEST(ChatTemplate, FiltersFindNothingInNone) {
  EXPECT_EQ(render("{{ none | selectattr('a') | list }}{{ none | rejectattr('a') | list }}"), "[][]");
  EXPECT_EQ(render("{{ none | select | list }}{{ none | reject('odd') | list }}"), "[][]");
  EXPECT_EQ(render("{{ none | map('upper') | list }}{{ nobody | map(attribute='a') | list }}"), "[][]");
}

TEST(ChatTemplate, NumbersBehindADotAreItems) {
  EXPECT_EQ(render("{% set x = [[1, 2], [3, 4]] %}{{ x.0.1 }} {{ x.1.0 + 0.5 }} {{ x[1].1 }}"), "2 3.5 4");
}

TEST(ChatTemplate, Loops) {
  EXPECT_EQ(render("{% for x in 'abc' %}{{ loop.index }}{{ loop.last }}{{ loop.previtem | default('-') }}"
                   "{{ loop.cycle('x', 'y') }} {% endfor %}"),
            "1False-x 2Falseay 3Truebx ");
  EXPECT_EQ(render("{% for x in [] %}a{% else %}b{% endfor %}"), "b");
  EXPECT_EQ(render("{% for k, v in {'a': 1}.items() %}{{ k }}{{ v }}{% endfor %}"), "a1");
  EXPECT_EQ(render("{% for x in range(9) if x % 2 %}{% if x > 5 %}{% break %}{% endif %}{{ x }}{% endfor %}"),
            "135");
  EXPECT_EQ(render("{% for x in [[1, [2]]] recursive %}{% if x is iterable %}({{ loop(x) }}){% else %}{{ x }}"
                   "{% endif %}{% endfor %}"),
            "(1(2))");
}

TEST(ChatTemplate, JsonIsPythons) {
  EXPECT_EQ(render("{{ x | tojson }}", R"({"x": {"b": [1, 2.0, null, true], "a": "é\n<\"", "c": {}}})"),
            R"({"b": [1, 2.0, null, true], "a": "é\n<\"", "c": {}})");
  EXPECT_EQ(render("{{ x | tojson(indent=2) }}", R"({"x": {"b": [1], "a": []}})"),
            "{\n  \"b\": [\n    1\n  ],\n  \"a\": []\n}");
}

TEST(ChatTemplate, TextsAreCodePoints) {
  EXPECT_EQ(render("{{ x[1] }}{{ x[::-1] }}{{ x | length }}{{ x.upper() }}", R"({"x": "aéz"})"), "ézéa3AÉZ");
  EXPECT_EQ(render("{{ [x, 'it\\'s', 'a\\n'] }}", R"({"x": "é"})"), R"(['é', "it's", 'a\n'])");
}

TEST(ChatTemplate, SplitsAtWhiteSpace) {
  EXPECT_EQ(render("{{ ' a  b c '.split() }}{{ ' a  b c '.split(none, 1) }}{{ ''.split() }}"),
            "['a', 'b', 'c']['a', 'b c '][]");
  EXPECT_EQ(render("{{ ' a  b c '.rsplit() }}{{ ' a  b c '.rsplit(none, 1) }}{{ ' a '.rsplit(none, 0) }}"),
            "['a', 'b', 'c'][' a  b', 'c'][' a']");
}

TEST(ChatTemplate, ErrorsNameTheLineAndWhatWasFound) {
  EXPECT_EQ(error_of("a\n{% if x %}"),
            "chat template: line 2: expected {% endif %}, found 'end of the template'");
  EXPECT_EQ(error_of("\n\n{{ x.y.z }}"), "chat template: line 3: 'x' is undefined");
  EXPECT_EQ(error_of("{{ 1 + 'a' }}"), "chat template: line 1: + has no meaning for a int and a str");
  EXPECT_EQ(error_of("{{ x | nope }}"), "chat template: line 1: there is no filter 'nope'");
  EXPECT_EQ(error_of("{{ raise_exception('no system role') }}"),
            "chat template: line 1: the template refuses: no system role");
  EXPECT_EQ(error_of("{{ [].append(1) }}"),
            "chat template: line 1: append of a list changes it, which templates may not do");
  EXPECT_THAT(error_of("{% include 'x' %}"), HasSubstr("line 1: expected a statement"));
  EXPECT_THAT(error_of("{{ 'a }}"), HasSubstr("line 1: the string has no end"));
  EXPECT_THAT(error_of("x", "[]"), HasSubstr("variables must be an object, found list"));
}

// Kimi K2's template keeps a queue in a namespace.
TEST(ChatTemplate, ListsOfANamespaceGrowAndShrink) {
  EXPECT_EQ(
      render("{% set q = namespace(ids=[]) %}{% for i in 'abc' %}{% set _ = q.ids.append(i) %}{% endfor %}"
             "{{ q.ids.pop(0) }}{{ q.ids.pop() }}{{ q.ids | length }}{{ q.ids[0] }}"),
      "ac1b");
  EXPECT_EQ(render("{% set q = namespace(ids=[1]) %}{% set before = q.ids %}{% set _ = q.ids.append(2) %}"
                   "{{ before | length }}{{ q.ids | length }}"),
            "12");
  EXPECT_THAT(error_of("{% set q = namespace(ids=[]) %}{{ q.ids.pop() }}"), HasSubstr("there is no item"));
  EXPECT_THAT(
      error_of("{% set q = namespace(ids=[]) %}{% for i in range(99999) %}{% set _ = q.ids.append(i) %}"
               "{% endfor %}"),
      HasSubstr("more than"))
      << "each one pays for the list that it makes";
}

TEST(ChatTemplateHostile, StepsAndDepth) {
  EXPECT_THAT(error_of("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
              HasSubstr("nested deeper than 1000"));
  EXPECT_THAT(error_of("{% for i in range(1000000000) %}{% endfor %}"),
              HasSubstr("range has more than 100000"));
  EXPECT_THAT(error_of("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
              HasSubstr("more than"));
  EXPECT_THAT(error_of("{% for i in [[1]] recursive %}{{ loop([i]) }}{% endfor %}"),
              HasSubstr("deeper than"));
}

// A thread that others wait for gives up early; the same rendering without that bound is whole.
TEST(ChatTemplateHostile, QuickSteps) {
  const ChatTemplate chat = ChatTemplate::compile("{% for i in range(1000) %}{{ i }}{% endfor %}");
  EXPECT_THROW(chat.render("[]", "", {.quick_steps = 500}), chat_template::RenderingTakesLong);
  const std::string whole = chat.render("[]", "").text;
  EXPECT_EQ(chat.render("[]", "", {.quick_steps = 100'000}).text, whole);
  // Reading what came with the request counts, too.
  const std::string long_text = R"([{"role":"user","content":")" + std::string(100'000, 'a') + R"("}])";
  EXPECT_THROW(chat.render(long_text, "", {.quick_steps = 1000}), chat_template::RenderingTakesLong);
}

TEST(ChatTemplateHostile, Memory) {
  EXPECT_THAT(error_of("{{ 'a' * 1000000000000 }}"), HasSubstr("bytes of values"));
  EXPECT_THAT(error_of("{{ [1] * 1000000000000 }}"), HasSubstr("bytes of values"));
  EXPECT_THAT(error_of("{% set n = namespace(x='aaaaaaaa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x "
                       "%}{% endfor %}"),
              HasSubstr("bytes of values"));
  EXPECT_THAT(
      error_of(
          "{% set n = namespace(x=[]) %}{% for i in range(999) %}{% set n.x = [n.x, n.x] %}{% endfor %}"),
      HasSubstr("nested deeper than 200"));
  EXPECT_THAT(
      error_of("{% set n = namespace(x=[]) %}{% for i in range(99) %}{% set n.x = [n.x, n.x] %}{% endfor %}"
               "{{ n.x == n.x }}{{ n.x }}"),
      HasSubstr("more than 5000000 steps"));
  EXPECT_THAT(error_of("{% for i in range(99999) %}{{ x }}{% endfor %}",
                       "{\"x\": \"" + std::string(1000, 'a') + "\"}"),
              HasSubstr("bytes of output"));
  EXPECT_THAT(error_of("{{ 'a' | indent(999999999999) }}"), HasSubstr("bytes of values"));
  // A word per character, from the right: as fast as from the left.
  EXPECT_THAT(
      error_of("{% set a = 'a ' * 999999 %}{% for i in range(99) %}{% set b = a.rsplit() %}{% endfor %}"),
      HasSubstr("bytes of values"));
  EXPECT_THAT(error_of("{{ 'a'.rjust(999999999999) }}"), HasSubstr("bytes of values"));
  // Products of sizes that are small again modulo 2^64.
  EXPECT_THAT(error_of("{{ 'a'.ljust(4611686018427387915, '\xf0\x9f\x90\x9b') }}"),
              HasSubstr("bytes of values"));
  EXPECT_THAT(error_of("{{ [1] | batch(768614336404564651, 0) | list }}"), HasSubstr("bytes of values"));
  EXPECT_EQ(render("{{ 'a'.ljust(-9223372036854775807) }}"), "a");
  // What looks through texts pays for what it looks at.
  const std::string_view lines[] = {
      "{% set b = (a + 'b') in a + a %}",        "{% set b = a | trim('bcdefghijklmnopqrstuvwxyza') %}",
      "{% set b = a.strip('bcdefghijklmna') %}", "{% set b = a.startswith((a, a, a, a, a, a, a, a)) %}",
      "{% set b = a.rfind('b' + a[1:]) %}",      "{% set b = a.count('b') %}",
      "{% set b = a.replace('b', '') %}",        "{% set b = a.partition('b') %}"};
  for (const std::string_view line : lines)
    EXPECT_THAT(
        error_of("{% set a = 'a' * 200000 %}{% for i in range(9999) %}" + std::string(line) + "{% endfor %}"),
        HasSubstr("more than"))
        << line;
}

TEST(ChatTemplateHostile, Source) {
  const auto many = [](size_t count, std::string_view text) {
    std::string all;
    for (size_t i = 0; i < count; ++i) all += text;
    return all;
  };
  EXPECT_THAT(error_of("{{ " + many(60000, "(") + "1" + many(60000, ")") + " }}"),
              HasSubstr("nested deeper than 100"));
  EXPECT_THAT(error_of("{{ " + many(60000, "not ") + "1 }}"), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(error_of("{{ " + many(60000, "- ") + "1 }}"), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(error_of("{{ 1" + many(60000, "+1") + " }}"), HasSubstr("an expression is deeper than 500"));
  EXPECT_THAT(error_of(many(60000, "{% if 1 %}")), HasSubstr("nested deeper than 100"));
  EXPECT_THAT(error_of(many(2000000, "a")), HasSubstr("the source has 2000000 bytes, the limit is 1048576"));
  EXPECT_THAT(error_of("{{ x }}", "{\"x\": " + many(1000, "[") + many(1000, "]") + "}"),
              HasSubstr("nested deeper than 200"));
}

}  // namespace
}  // namespace butterfly::model
