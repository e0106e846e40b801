#include "cli/nodes/node_view.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json_text.h"
#include "base/printable.h"
#include "base/units.h"
#include "cluster/member/status.h"

namespace butterfly::cli {
namespace {

constexpr const char* kFile = "node-status";

std::string state_name(cluster::Worker::State state) {
  switch (state) {
    case cluster::Worker::State::kWaiting:
      return "waiting";
    case cluster::Worker::State::kConnecting:
    case cluster::Worker::State::kJoining:
      return "connecting";
    case cluster::Worker::State::kJoined:
      return "joined";
    case cluster::Worker::State::kGivenUp:
      return "given up";
  }
  return "unknown";
}

std::string text_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? printable(found->get<std::string>(), 600)
                                                   : std::string();
}

int64_t number_at(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number_integer() ? found->get<int64_t>() : 0;
}

}  // namespace

bool NodeView::same(const NodeView& other) const {
  return name == other.name && address == other.address && coordinator == other.coordinator &&
         state == other.state && phase == other.phase && problem == other.problem && notice == other.notice &&
         begin == other.begin && end == other.end;
}

NodeView node_view(const runtime::NodeShell::View& view, const std::string& name, const std::string& address,
                   const std::string& coordinator) {
  return {.name = name,
          .address = address,
          .coordinator = coordinator,
          .state = state_name(view.state),
          .phase = std::string(cluster::worker_phase_name(view.phase)),
          .problem = view.problem,
          .notice = view.notice,
          .begin = view.begin,
          .end = view.end,
          .pid = ::getpid(),
          .unix_ms = unix_ms()};
}

std::string to_json(const NodeView& view) {
  return json_text(nlohmann::ordered_json{{"name", view.name},
                                          {"address", view.address},
                                          {"coordinator", view.coordinator},
                                          {"state", view.state},
                                          {"phase", view.phase},
                                          {"problem", view.problem},
                                          {"notice", view.notice},
                                          {"layers", {{"begin", view.begin}, {"end", view.end}}},
                                          {"pid", view.pid},
                                          {"unix_ms", view.unix_ms}},
                   2);
}

void write_node_view(const cluster::StateFolder& folder, const NodeView& view) {
  folder.write(kFile, to_json(view) + "\n");
}

std::optional<NodeView> read_node_view(const cluster::StateFolder& folder) {
  if (!folder.has(kFile)) return std::nullopt;
  try {
    const auto json = json_of_text<nlohmann::json>(folder.read(kFile, 1 << 16));
    if (!json.is_object()) return std::nullopt;
    NodeView view;
    view.name = text_at(json, "name");
    view.address = text_at(json, "address");
    view.coordinator = text_at(json, "coordinator");
    view.state = text_at(json, "state");
    view.phase = text_at(json, "phase");
    view.problem = text_at(json, "problem");
    view.notice = text_at(json, "notice");
    if (const auto layers = json.find("layers"); layers != json.end() && layers->is_object()) {
      view.begin = static_cast<uint32_t>(number_at(*layers, "begin"));
      view.end = static_cast<uint32_t>(number_at(*layers, "end"));
    }
    view.pid = number_at(json, "pid");
    view.unix_ms = number_at(json, "unix_ms");
    return view;
  } catch (const std::exception&) {  // half of a file, or somebody else's
    return std::nullopt;
  }
}

bool runs(const NodeView& view) {
  return view.pid > 1 && (::kill(static_cast<pid_t>(view.pid), 0) == 0 || errno == EPERM);
}

std::string view_text(const NodeView& view, const std::string& why) {
  const Duration ago = std::chrono::milliseconds(std::max<int64_t>(0, unix_ms() - view.unix_ms));
  std::string out = fmt::format("the coordinator at {} cannot be asked: {}\n", view.coordinator, why);
  if (!runs(view))
    return out + fmt::format("node '{}' does not run here ('butterfly join' starts it); {} ago it was {}\n",
                             view.name, format_duration(ago), view.state);
  out += fmt::format("node '{}' at {}, as it sees itself: {}, {}, for {}\n", view.name, view.address,
                     view.state, view.phase, format_duration(ago));
  if (view.end > view.begin) out += fmt::format("layers: {}-{}\n", view.begin, view.end - 1);
  if (!view.problem.empty()) out += fmt::format("problem: {}\n", view.problem);
  if (!view.notice.empty()) out += fmt::format("notice: {}\n", view.notice);
  return out;
}

}  // namespace butterfly::cli
