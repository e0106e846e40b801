// delay_line: joins network devices like a switch whose every frame takes a fixed time. For kernels without
// netem.
//
//   delay_line MICROSECONDS DEVICE DEVICE...
//
// Runs in the namespace of the devices (bench/cluster/emulated.py makes it) until it is told to end. Frames
// keep what the sender's kernel left to the device (checksums, segments), so offloads need not be switched
// off.
#include <arpa/inet.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Mac = std::array<unsigned char, 6>;
constexpr size_t kFrameMax = 80 << 10;  // a segment of 64 KiB and its headers
constexpr size_t kFramesMax = 1 << 16;  // on their way; more are lost, as in a switch
constexpr size_t kHeaderBytes = 10;     // struct virtio_net_hdr, whose header C++ cannot read

[[noreturn]] void give_up(const char* what) {
  std::fprintf(stderr, "delay_line: %s: %s\n", what, std::strerror(errno));
  std::exit(1);
}

// A socket that sees and sends whole frames of one device.
int open_device(const char* name) {
  const unsigned index = if_nametoindex(name);
  if (index == 0) give_up(name);
  const int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, htons(ETH_P_ALL));
  if (fd < 0) give_up("socket");
  const int on = 1, buffer = 8 << 20;
  if (setsockopt(fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof on) != 0) give_up("PACKET_VNET_HDR");
  if (setsockopt(fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof on) != 0)
    give_up("PACKET_IGNORE_OUTGOING");
  (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &buffer, sizeof buffer);
  sockaddr_ll address{};
  address.sll_family = AF_PACKET;
  address.sll_protocol = htons(ETH_P_ALL);
  address.sll_ifindex = static_cast<int>(index);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) give_up("bind");
  return fd;
}

struct Frame {
  Clock::time_point due;
  size_t from;
  std::vector<char> bytes;  // virtio_net_hdr, then the frame
};

Mac mac_at(const Frame& frame, size_t offset) {
  Mac mac;
  std::memcpy(mac.data(), frame.bytes.data() + kHeaderBytes + offset, mac.size());
  return mac;
}

class Switch {
 public:
  Switch(std::chrono::microseconds delay, std::vector<int> devices)
      : delay_(delay), devices_(std::move(devices)) {}

  [[noreturn]] void run() {
    std::vector<pollfd> polled;
    for (const int fd : devices_) polled.push_back({fd, POLLIN, 0});
    for (;;) {
      timespec wait{3600, 0};
      if (!waiting_.empty()) {
        const auto left = std::max(Clock::duration(0), waiting_.front().due - Clock::now());
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
        wait = {static_cast<time_t>(ns / 1'000'000'000), static_cast<long>(ns % 1'000'000'000)};
      }
      if (ppoll(polled.data(), polled.size(), &wait, nullptr) < 0 && errno != EINTR) give_up("ppoll");
      for (size_t i = 0; i < devices_.size(); ++i) take(i);
      while (!waiting_.empty() && waiting_.front().due <= Clock::now()) {
        send(waiting_.front());
        waiting_.pop_front();
      }
    }
  }

 private:
  void take(size_t device) {
    for (;;) {
      Frame frame{.due = {}, .from = device, .bytes = std::vector<char>(kFrameMax)};
      const ssize_t count = recv(devices_[device], frame.bytes.data(), frame.bytes.size(), 0);
      if (count < static_cast<ssize_t>(kHeaderBytes + sizeof(ether_header))) return;
      frame.bytes.resize(static_cast<size_t>(count));
      frame.due = Clock::now() + delay_;
      home_[mac_at(frame, 6)] = device;
      if (waiting_.size() < kFramesMax) waiting_.push_back(std::move(frame));
    }
  }

  // To the device behind which the receiver was seen, else to all others.
  void send(const Frame& frame) {
    const auto known = home_.find(mac_at(frame, 0));
    for (size_t i = 0; i < devices_.size(); ++i)
      if (i != frame.from && (known == home_.end() || known->second == i))
        (void)::send(devices_[i], frame.bytes.data(), frame.bytes.size(), 0);  // a lost frame is a lost frame
  }

  const std::chrono::microseconds delay_;
  const std::vector<int> devices_;
  std::deque<Frame> waiting_;
  std::map<Mac, size_t> home_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "delay_line MICROSECONDS DEVICE DEVICE...\n");
    return 2;
  }
  std::vector<int> devices;
  for (int i = 2; i < argc; ++i) devices.push_back(open_device(argv[i]));
  Switch(std::chrono::microseconds(std::atol(argv[1])), std::move(devices)).run();
}
