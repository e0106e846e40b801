// Models on a cluster, seen from the node that serves them: everything that `serve` needs to start and to
// show.
#pragma once
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>

#include "cluster/identity/credentials.h"
#include "cluster/node/capabilities.h"
#include "runtime/nodes/coordinator_backend.h"
#include "runtime/nodes/coordinator_shell.h"
#include "runtime/nodes/lead_shell.h"
#include "runtime/nodes/node_door.h"
#include "runtime/nodes/node_shell.h"
#include "runtime/nodes/training_backend.h"
#include "runtime/nodes/training_job.h"
#include "runtime/planning/plan_placement.h"
#include "runtime/training/train_node.h"

namespace butterfly::runtime {

// A model that the cluster serves: one job.
struct HostedModelOptions {
  std::filesystem::path path;
  std::string name;
  std::vector<model::AdapterSpec> adapters = {};  // added to its matrices, in order
  PlacementOptions placement;                     // with the settings of all stages
  bool rebalance = true;                          // layers move away from nodes that became slow
};

struct ClusterHostOptions {
  std::filesystem::path state;  // a StateFolder where the cluster was made
  std::string listen = "0.0.0.0:0";
  std::string version;  // of the program
  // From the start; the first ones are placed first. None: a cluster that only trains, or gets models later.
  std::vector<HostedModelOptions> models;
  cluster::Capabilities capabilities;
  WeightPlaces places;
  uint64_t memory_bytes = 0;                       // bound for the stages of this node; 0: what is free
  size_t nodes_wanted = 1;                         // the first plan waits for so many, this one included,
  Duration nodes_wait = std::chrono::seconds(10);  // but not longer than this
  cluster::HealthLimits health = {};
  bool measure_links = true;
  bool discoverable = false;                    // answers those who look for clusters on the local network
  Compute* compute = nullptr;                   // borrowed
  std::shared_ptr<cluster::MpiWorld> mpi = {};  // rows go over it where they can; null: they do not
  // Why this node leads, where several may; it does. Null: it is the one that the certificates name.
  std::shared_ptr<LeadShell> lead = {};
  std::vector<std::string> standbys = {},
                           witnesses = {};  // names of nodes that shall be able to lead, and to vote
};

// Made, started, then used from any thread. Throws Error where a model cannot be opened or is there twice,
// the port not had, or the node belongs to no cluster.
class ClusterHost {
 public:
  explicit ClusterHost(ClusterHostOptions options);
  ~ClusterHost();

  // Where nodes reach this one: "10.0.0.7:4711".
  const std::string& address() const { return door_->address(); }
  cluster::NodeId self() const { return self_; }
  std::string authority_hash() const { return authority_hash_; }

  void start();
  // Serves another model from now on, beside those it has: it gets a place in what they leave free. Hashes
  // its files first, unless that was done before. Throws Error as the constructor does, kInvalidArgument also
  // where the name or the model is there already. Any thread.
  void add_model(const HostedModelOptions& model);
  bool has_model(const std::string& name) const;
  // It is not served any more, and the nodes free what they have of it. Its engine has ended. kNotFound.
  Status end_model(const std::string& name);
  // Trains beside what is served and after it, on the nodes that have the memory; goes on from a checkpoint.
  // Models that need the memory get it. Throws Error where the settings name no run that can be made here,
  // kInvalidArgument where one is under way. Any thread.
  void add_training(const train::TrainConfig& config, TrainingHooks hooks = {});
  // Lets nodes fetch a model's files, for runs that teach an adapter: their id. Hashes them, unless that was
  // done before. Any thread.
  std::string share_model(const std::filesystem::path& path);
  // Ends it, with kCancelled, after its step and a checkpoint. Returns before. Any thread.
  void end_training();
  // Of the names and contents of its models: equal ones answer alike.
  std::string models_id() const;
  // The engine of one of its models; one at a time for each. End it before this.
  std::shared_ptr<Engine> make_engine(const std::string& name, const model::Tokenizer* tokenizer,
                                      const EngineOptions& options);
  // For one of its models, whichever is first. kTimeout or kCancelled, in words.
  Status wait_until_serving(Duration timeout, const std::function<bool()>& cancelled);
  void stop();

  CoordinatorShell& coordinator() { return *coordinator_; }
  // For training on this cluster: who is up besides this node, and links to them.
  std::vector<TrainNode> train_nodes() const;
  ConnectPeer connect_for_training() const;
  // The first epoch that no run of an earlier life of this process had.
  cluster::Epoch first_epoch() const;
  // As docs/cluster.md has it.
  std::string status_json(uint64_t events_after = 0) const;

  // Calls back with every event from now on, on the shell's thread: be quick. A callback that returns false
  // is forgotten; null asks whether it is still wanted. False: so many listen already.
  using EventCallback = std::function<bool(const cluster::EventStatus* event)>;
  static constexpr size_t kSubscribersMax = 64;
  bool subscribe(EventCallback callback);
  void forget_subscribers();
  // "butterfly join 10.0.0.7:7741 --token …" for one machine, good for an hour. kNotFound where the cluster
  // was not made here.
  Result<std::string> make_join_line() const;
  // By name or key: acts at once, and the node is not let in again.
  Status remove_node(const std::string& name_or_key);

 private:
  // The parts of the constructor, in order; each uses those before it.
  void open_transport(const cluster::StateFolder& folder, const cluster::Credentials& credentials);
  void open_door();
  void make_coordinator(const cluster::StateFolder& folder);
  void make_node();
  void tell_leaders();
  std::optional<cluster::LeadStatus> lead_status() const;  // of a cluster with a standby

  void tell(const cluster::EventStatus* event);

  // A model, and this node's part of it.
  struct Hosted {
    HostedModelOptions options;
    cluster::JobId job = 0;
    model::ModelFile file;
    cluster::ModelTask task = {};
    std::unique_ptr<EngineSlot> steps = {};
    PlacementBalance balance = {};  // of the thread that works it out
  };
  std::shared_ptr<Hosted> find(const std::string& name) const;
  std::shared_ptr<CoordinatorBackend> backend_of(cluster::JobId job);
  // Hashes files, unless that was done before, and offers them to the other nodes: their id.
  std::string share_files(const std::string& name, const std::vector<cluster::FileToHash>& files);
  // The same for a model and its adapters, which are in the settings of its stages then.
  cluster::ModelTask share_weights(HostedModelOptions& model, const model::ModelFile& file);

  ClusterHostOptions options_;
  cluster::NodeId self_;
  cluster::Hello hello_;
  std::string authority_hash_;
  std::shared_ptr<cluster::NodeTls> tls_;
  std::shared_ptr<cluster::Roster> roster_;
  std::shared_ptr<cluster::Transport> transport_;
  std::shared_ptr<cluster::WeightLibrary> library_ = std::make_shared<cluster::WeightLibrary>();
  std::shared_ptr<NodeMemory> memory_;
  StageLinks stage_links_;
  const std::shared_ptr<ParkedCaches> parked_ = std::make_shared<ParkedCaches>();
  mutable std::mutex models_mutex_;
  std::map<cluster::JobId, std::shared_ptr<Hosted>> models_;
  std::mutex adding_mutex_;  // one model is added or ended at a time; before models_mutex_
  // This node's part of each job, for good: a number may be given to another model later.
  std::map<cluster::JobId, std::shared_ptr<CoordinatorBackend>> backends_;
  std::shared_ptr<TrainingBackend> training_place_;
  mutable std::mutex training_mutex_;
  std::shared_ptr<TrainingJob> training_;  // the last one
  bool training_runs_ = false;
  std::unique_ptr<NodeDoor> door_;
  std::unique_ptr<CoordinatorShell> coordinator_;
  std::unique_ptr<NodeShell> node_;
  std::string missing_said_;  // of leading_'s thread
  std::unique_ptr<EventLoop> renewal_, answering_, leading_;

  std::mutex callbacks_mutex_;
  std::vector<EventCallback> callbacks_;
};

}  // namespace butterfly::runtime
