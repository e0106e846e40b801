// Our own model, models/caterpillar.gguf: it answers questions that it has never seen, talks and tells
// stories; and what it learned in training is what it knows when it runs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/json_text.h"
#include "base/testing/source_tree.h"
#include "base/testing/temp_dir.h"
#include "cli/console/exit_code.h"
#include "cli/models/conversation.h"
#include "cli/models/questions.h"
#include "cli/testing/run_captured.h"
#include "runtime/engine/local_engine.h"
#include "runtime/layers/cached_layers.h"
#include "runtime/measure/perplexity.h"
#include "train/corpus/corpus.h"
#include "train/corpus/words.h"
#include "train/data/documents.h"
#include "train/networks/transformer.h"
#include "train/trainer/trainer.h"

namespace butterfly::cli {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kModel = source_path("models/caterpillar.gguf").string();

runtime::RequestOptions greedy() {
  runtime::RequestOptions options;
  options.sampling.temperature = 0;
  return options;
}

struct Caterpillar : ::testing::Test {
  std::unique_ptr<runtime::Engine> engine() {
    return runtime::make_local_engine(*model, compute, runtime::one_stream(model->config.context));
  }
  butterfly::testing::TempDir dir;
  ThreadPool pool{1};
  Compute compute{1};
  std::unique_ptr<runtime::LoadedModel> model = runtime::load_model(kModel, pool);
};

TEST_F(Caterpillar, AnswersQuestionsItHasNeverSeen) {
  train::write_corpus(dir / "corpus", {.seed = 1, .items = 1, .valid_items = 1, .question_items = 500});
  const auto here = engine();
  const QuestionResult result =
      ask_questions(*here, model->tokenizer_or_throw(), chat_template_of(*model),
                    read_questions(dir / "corpus/questions.jsonl"), [](size_t) { return true; });
  EXPECT_EQ(result.all.asked, 500u);
  EXPECT_GE(result.all.right, 475u);
  for (const auto& wrong : result.wrong)
    RecordProperty(wrong.question.question, wrong.found);  // seen in the report, not an error by itself
}

TEST_F(Caterpillar, Greets) {
  for (const char* message : {"Hello", "hi", "Hi there!", "Good morning"}) {
    const Outcome said = run({"run", kModel, "--chat", "-q", "-p", message, "--temp", "0", "-t", "1"});
    EXPECT_THAT(said.out, HasSubstr("Hello! Ask me about numbers, people and things")) << message;
  }
}

TEST_F(Caterpillar, HoldsAConversation) {
  const auto here = engine();
  Conversation talk(*here, model->tokenizer_or_throw(), chat_template_of(*model));
  const auto ask = [&](const char* message) {
    std::string answer;
    const auto result = talk.ask(message, greedy(), [&](std::string_view text) {
      answer += text;
      return true;
    });
    EXPECT_EQ(result.finish.reason, runtime::FinishReason::kEndOfText) << message;
    return answer;
  };
  EXPECT_EQ(ask("What is your name?"), "My name is Caterpillar.");
  EXPECT_EQ(ask("Today Mia went to the castle. Where is Mia?"), "At the castle.");
  EXPECT_EQ(ask("What is 3 plus 4?"), "It is 7.");
}

TEST_F(Caterpillar, TellsAStory) {
  const Outcome told =
      run({"run", kModel, "--chat", "-p", "Tell me a story about Mia.", "--temp", "0", "-t", "1", "--json"});
  ASSERT_EQ(told.status, kExitOk) << told.err;
  const auto json = json_of_text<nlohmann::json>(told.out);
  EXPECT_EQ(json["stop_reason"], "end of text");
  const std::string text = json["text"];
  EXPECT_THAT(text, HasSubstr("Mia"));
  EXPECT_THAT(text, EndsWith("."));
  EXPECT_GT(std::count(text.begin(), text.end(), ' '), 30);
}

// A story keeps to the person it was asked for and one friend.
TEST_F(Caterpillar, StoriesKeepTheirPeople) {
  for (size_t i = 0; i < train::kPeople.size(); ++i) {
    const std::string hero(train::kPeople[i].name);
    const Outcome told = run({"run", kModel, "--chat", "-q", "-p", "Tell me a story about " + hero + ".",
                              "--seed", std::to_string(i), "-t", "1"});
    EXPECT_THAT(told.out, HasSubstr(hero));
    const auto people = std::count_if(
        train::kPeople.begin(), train::kPeople.end(),
        [&](const train::Person& person) { return told.out.find(person.name) != std::string::npos; });
    EXPECT_LE(people, 2) << told.out;
  }
}

TEST_F(Caterpillar, StoriesUseBothNames) {
  const Outcome told = run(
      {"run", kModel, "--chat", "-q", "-p", "Tell me a story about Ida and Tom.", "--temp", "0", "-t", "1"});
  EXPECT_THAT(told.out, HasSubstr("Ida"));
  EXPECT_THAT(told.out, HasSubstr("Tom"));
}

// The loss of the training graph, and that of the inference engine on the same windows, token by token.
TEST_F(Caterpillar, TrainingAndInferenceAgreeOnItsLoss) {
  const std::string plain = (dir / "f32.gguf").string();
  ASSERT_EQ(run({"convert", kModel, plain, "--type", "f32", "--allow-requantize"}).status, kExitOk);
  train::write_corpus(dir / "corpus", {.seed = 1, .items = 1, .valid_items = 60, .question_items = 1});
  const auto exact = runtime::load_model(plain, pool);
  const size_t length = exact->config.context;
  const auto data = train::open_dataset(
      dir / "corpus/valid.jsonl", length, exact->tokenizer_or_throw(),
      model::ChatPrompter(exact->tokenizer_or_throw(), chat_template_of(*exact)), {.train_on_inputs = false});
  const size_t windows = std::min<size_t>(4, data->size());
  train::Batch batch;
  batch.resize(windows, data->shape());
  for (size_t i = 0; i < windows; ++i) data->read(i, batch.row(i));

  train::Transformer network(model::open_model(plain), {.length = length});
  train::Trainer trainer(network, {.workers = 1, .threads_per_worker = 1});
  const train::MicroBatch whole{.tokens = batch.ids, .pixels = {}, .targets = batch.targets};
  const train::StepReport trained = trainer.evaluate({&whole, 1});

  runtime::CachedLayers here(
      *exact, pool, {.positions = length, .sequences = 1, .kv_type = DType::kF32, .rows_max = length});
  double loss = 0;
  size_t targets = 0;
  for (size_t i = 0; i < windows; ++i) {
    const auto row = batch.row(i);
    for (size_t begin = 0, end = 0; begin < length; begin = end) {  // document by document
      here.cache().truncate(0, 0);
      std::vector<runtime::BatchRow> rows;
      do {
        rows.push_back({train::id_of(row.ids[end]), 0, static_cast<uint32_t>(end - begin), true});
      } while (++end < length && !train::is_document_start(row.ids[end]));
      const auto logits = here.run(rows);
      const size_t vocabulary = logits.size() / rows.size();
      for (size_t t = begin; t < end; ++t) {
        if (row.targets[t] < 0) continue;
        loss += runtime::negative_log_probability(logits.subspan((t - begin) * vocabulary, vocabulary),
                                                  row.targets[t]);
        ++targets;
      }
    }
  }
  loss /= static_cast<double>(targets);
  EXPECT_EQ(targets, trained.targets);
  EXPECT_NEAR(loss, trained.loss, 1e-5);
  EXPECT_LT(loss, 1);  // it has learned something
}

}  // namespace
}  // namespace butterfly::cli
