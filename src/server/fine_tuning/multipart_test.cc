#include "server/fine_tuning/multipart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/api/api_error.h"

namespace butterfly::server {
namespace {

constexpr const char* kType = "multipart/form-data; boundary=xyz";

TEST(Multipart, FieldsAndFilesAsClientsSendThem) {
  const std::string body =
      "--xyz\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nfine-tune\r\n"
      "--xyz\r\ncontent-disposition: form-data; name=\"file\"; filename=\"a \\\"b\\\".jsonl\"\r\n"
      "Content-Type: application/octet-stream\r\n\r\n{\"a\": 1}\r\n--xy\n\r\n--xyz--\r\n";
  const auto parts = parse_form("Multipart/Form-Data; boundary=\"xyz\"", body);
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts[0].name, "purpose");
  EXPECT_EQ(parts[0].filename, "");
  EXPECT_EQ(parts[0].content, "fine-tune");
  EXPECT_EQ(parts[1].name, "file");
  EXPECT_EQ(parts[1].filename, "a \"b\".jsonl");
  EXPECT_EQ(parts[1].content, "{\"a\": 1}\r\n--xy\n");
  EXPECT_EQ(
      parse_form(kType, "--xyz\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n--xyz--")[0].content, "");
  EXPECT_TRUE(parse_form(kType, "--xyz--\r\n").empty());
}

TEST(Multipart, WhatIsNoFormIsRefusedInWords) {
  const auto status = [](std::string_view type, std::string_view body) {
    try {
      parse_form(type, body);
    } catch (const ApiError& error) {
      return error.status;
    }
    return 0;
  };
  EXPECT_EQ(status("application/json", "{}"), 415);
  const std::string head = "--xyz\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\n";
  for (const std::string& body :
       {std::string(), std::string("--xy"), std::string("--xyz"), std::string("--xyz\r\n"), head,
        head + "abc", head + "abc\r\n--xyz", head + "abc\r\n--xyzz",
        std::string("--xyz\r\nContent-Disposition: form-data\r\n\r\nabc\r\n--xyz--"),
        std::string("--xyz\r\nnonsense\r\n\r\nabc\r\n--xyz--"), std::string("--xyz\r\n\r\nabc\r\n--xyz--"),
        "--xyz\r\n" + std::string(5000, 'a') + "\r\n\r\nabc\r\n--xyz--"})
    EXPECT_EQ(status(kType, body), 400) << body.substr(0, 80);
  EXPECT_EQ(status("multipart/form-data", head), 400);
  EXPECT_EQ(status("multipart/form-data; boundary=" + std::string(71, 'b'), head), 400);
  std::string many;
  for (int i = 0; i < 33; ++i) many += head + "x\r\n";
  EXPECT_EQ(status(kType, many + "--xyz--"), 400);
  // Every beginning of a good one is no crash.
  const std::string good = head + "abc\r\n--xyz--";
  for (size_t length = 0; length < good.size(); ++length)
    EXPECT_EQ(status(kType, std::string_view(good).substr(0, length)), 400) << length;
}

}  // namespace
}  // namespace butterfly::server
