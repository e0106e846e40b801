// /v1/files: what clients upload for fine-tuning.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/file_text.h"
#include "server/api/list_page.h"
#include "server/fine_tuning/file_store.h"
#include "server/fine_tuning/multipart.h"
#include "server/http/limits.h"
#include "server/routes/route_table.h"
#include "server/routes/routes.h"

namespace butterfly::server {
namespace {

constexpr std::string_view kPurpose = "fine-tune";

FileStore& files_of(ServerContext& context) {
  if (context.files == nullptr)
    throw ApiError(404, "invalid_request_error",
                   "this server keeps no files and fine-tunes nothing; start it with --fine-tuning FOLDER",
                   {}, "unknown_url");
  return *context.files;
}

Json file_object(const StoredFile& file) {
  return {{"object", "file"},          {"id", file.id},         {"purpose", file.purpose},
          {"filename", file.filename}, {"bytes", file.bytes},   {"created_at", file.created_at},
          {"expires_at", nullptr},     {"status", "processed"}, {"status_details", nullptr}};
}

}  // namespace

void upload_file(ServerContext& context, ExchangePtr exchange) {
  FileStore& files = files_of(context);
  const std::string* type = exchange->request().field("content-type");
  const FormPart* file = nullptr;
  std::string_view purpose;
  const std::vector<FormPart> parts = parse_form(type == nullptr ? "" : *type, exchange->request().content());
  for (const FormPart& part : parts) {
    if (part.name == "file") file = &part;
    if (part.name == "purpose") purpose = part.content;
  }
  if (file == nullptr) bad_field("file", "'file' is a required property");
  if (purpose != kPurpose)
    bad_field("purpose", fmt::format("'{:.40}' is not one of ['{}']", purpose, kPurpose));
  if (file->content.empty()) bad_field("file", "the file is empty");
  respond_json(*exchange, to_text(file_object(files.add(owner_of(context, *exchange), file->filename,
                                                        std::string(purpose), file->content))));
}

void list_files(ServerContext& context, ExchangePtr exchange) {
  const PageQuery page = page_query(exchange->request(), 10'000);
  const std::string purpose = query_value(exchange->request(), "purpose");
  std::vector<StoredFile> files = files_of(context).list(owner_of(context, *exchange));
  std::erase_if(files, [&](const StoredFile& file) { return !purpose.empty() && file.purpose != purpose; });
  respond_json(*exchange, to_text(page_of(files, page.after, page.limit, file_object)));
}

void show_file(ServerContext& context, ExchangePtr exchange) {
  constexpr std::string_view kContent = "/content";
  const RouteMatch match = find_route("GET", exchange->request().path, Door::kNetwork);
  std::string id = path_parameter(*match.route, exchange->request().path);
  const bool content = id.ends_with(kContent);
  if (content) id.resize(id.size() - kContent.size());
  const StoredFile file = files_of(context).find(owner_of(context, *exchange), id);
  if (!content) return respond_json(*exchange, to_text(file_object(file)));
  // It is sent from memory, which is everybody's.
  if (file.bytes > HttpLimits().body_bytes)
    throw ApiError(400, "invalid_request_error",
                   fmt::format("the file has {} bytes; more than {} are not sent back", file.bytes,
                               HttpLimits().body_bytes),
                   "file_id", "file_too_large");
  HttpResponse response;
  response.content_type = "application/octet-stream";
  response.body = read_text_file(file.path);
  exchange->respond(std::move(response));
}

void delete_file(ServerContext& context, ExchangePtr exchange) {
  const RouteMatch match = find_route("DELETE", exchange->request().path, Door::kNetwork);
  const std::string id = path_parameter(*match.route, exchange->request().path);
  files_of(context).remove(owner_of(context, *exchange), id);
  respond_json(*exchange, to_text({{"id", id}, {"object", "file"}, {"deleted", true}}));
}

}  // namespace butterfly::server
