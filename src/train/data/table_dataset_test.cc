#include "train/data/table_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/testing/temp_dir.h"

namespace butterfly::train {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct TableDatasetTest : ::testing::Test {
  std::vector<float> row(const TableDataset& data, uint64_t item, int32_t& label) {
    std::vector<float> values(data.columns());
    data.read(item, {.ids = {}, .values = values, .targets = {&label, 1}});
    return values;
  }
  std::string refusal(const char* name, const std::string& text) {
    dir.write(name, text);
    try {
      TableDataset data(dir / name);
      return "";
    } catch (const Error& error) {
      return error.what();
    }
  }
  butterfly::testing::TempDir dir;
};

TEST_F(TableDatasetTest, ReadsBothFormats) {
  dir.write("t.csv", "a,b,class\n1, 2.5 ,0\r\n\n-3e-1,4,2\n");
  dir.write("t.jsonl", "{\"values\": [1, 2.5], \"label\": 0}\n{\"label\": 2, \"values\": [-0.3, 4]}\n");
  for (const char* name : {"t.csv", "t.jsonl"}) {
    const TableDataset data(dir / name);
    EXPECT_EQ(data.size(), 2u);
    EXPECT_EQ(data.classes(), 3u);
    EXPECT_EQ(data.shape(), (ItemShape{.ids = 0, .values = 2, .targets = 1}));
    int32_t label = -1;
    EXPECT_THAT(row(data, 0, label), ElementsAre(1.0f, 2.5f));
    EXPECT_EQ(label, 0);
    EXPECT_THAT(row(data, 1, label), ElementsAre(-0.3f, 4.0f));
    EXPECT_EQ(label, 2);
  }
}

TEST_F(TableDatasetTest, MistakesAreErrorsWithTheirLine) {
  EXPECT_THAT(refusal("a.csv", "1,2,0\n1,x,0\n"),
              HasSubstr("a.csv:2: column 2: expected a number, found 'x'"));
  EXPECT_THAT(refusal("b.csv", "1,2,0\n1,0\n"), HasSubstr("b.csv:2: 1 values, the rows before have 2"));
  EXPECT_THAT(refusal("c.csv", "1,2,0.5\n"), HasSubstr("the class is 0.5"));
  EXPECT_THAT(refusal("d.csv", "1,2,-1\n"), HasSubstr("the class is -1"));
  EXPECT_THAT(refusal("e.csv", "a,b\n"), HasSubstr("no rows"));
  EXPECT_THAT(refusal("f.csv", "1,nan,0\n"), HasSubstr("'nan'"));
  EXPECT_THAT(refusal("g.csv", "5\n"), HasSubstr("no values"));
  EXPECT_THAT(refusal("h.jsonl", "{\"values\": [1], \"label\": 0}\n[1]\n"), HasSubstr("h.jsonl:2: expected"));
  EXPECT_THAT(refusal("i.jsonl", "{\"values\": [\"x\"], \"label\": 0}\n"), HasSubstr("values[0]"));
}

}  // namespace
}  // namespace butterfly::train
