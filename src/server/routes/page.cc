// GET /: the page, for browsers; a word that something runs here, for everybody else. GET /page/{file}: its
// parts.
#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>

#include "server/routes/routes.h"
#include "server/web/page.h"

namespace butterfly::server {
namespace {

bool names(const HttpRequest& request, std::string_view field, std::string_view word) {
  const std::string* text = request.field(field);
  return text != nullptr && text->find(word) != std::string::npos;
}

// For clients that take no gzip, which no browser is. The last four bytes of a gzip file are its length.
std::string unpacked(std::string_view gzip) {
  uint32_t size = 0;
  for (size_t i = 0; i < 4; ++i)
    size |= uint32_t{static_cast<unsigned char>(gzip[gzip.size() - 4 + i])} << (8 * i);
  std::string out(size, '\0');
  z_stream stream{};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(gzip.data()));
  stream.avail_in = static_cast<uInt>(gzip.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = size;
  BF_CHECK(inflateInit2(&stream, 15 + 16) == Z_OK) << "zlib takes gzip";
  const int status = inflate(&stream, Z_FINISH);
  inflateEnd(&stream);
  BF_CHECK(status == Z_STREAM_END) << "the page is part of this program";
  return out;
}

void respond_file(const PageFile& file, Exchange& exchange, std::string_view caching) {
  HttpResponse response;
  response.content_type = std::string(file.content_type);
  response.fields = {{"Cache-Control", std::string(caching)},
                     {"Vary", "Accept, Accept-Encoding"},
                     {"Content-Security-Policy", std::string(kPagePolicy)},
                     {"Referrer-Policy", "no-referrer"},
                     {"Cross-Origin-Opener-Policy", "same-origin"},
                     {"Cross-Origin-Resource-Policy", "same-origin"}};
  if (names(exchange.request(), "accept-encoding", "gzip")) {
    response.fields.emplace_back("Content-Encoding", "gzip");
    response.body = std::string(file.gzip);
  } else {
    response.body = unpacked(file.gzip);
  }
  exchange.respond(std::move(response));
}

}  // namespace

void page_root(ServerContext&, ExchangePtr exchange) {
  const bool browser = names(exchange->request(), "accept", "text/html");
  if (const PageFile* file = find_page_file("index.html"); browser && file != nullptr)
    return respond_file(*file, *exchange, "no-cache");
  HttpResponse response;
  response.content_type = "text/plain; charset=utf-8";
  response.fields = {{"Vary", "Accept"}};
  response.body = "Butterfly is running\n";  // Ollama's clients look for such a word
  if (browser) response.body += fmt::format("\n{}\n", why_no_page());
  exchange->respond(std::move(response));
}

void page_file(ServerContext&, ExchangePtr exchange) {
  const PageFile* file = find_page_file(exchange->request().path.substr(1));
  if (file == nullptr)
    throw ApiError(404, "invalid_request_error",
                   fmt::format("the page has no file {:.200}; load it again", exchange->request().path), {},
                   "unknown_url");
  // Its name changes with its bytes.
  respond_file(*file, *exchange, "public, max-age=31536000, immutable");
}

}  // namespace butterfly::server
