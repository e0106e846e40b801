// A conversation with a model file, streamed: chat MODEL
#include <butterfly/model.h>

#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) throw std::runtime_error("usage: chat MODEL");
  butterfly::Model model = butterfly::Model::load(argv[1]);
  std::vector<butterfly::Message> messages;
  for (std::string line; std::cout << ">>> " << std::flush, std::getline(std::cin, line);) {
    messages.push_back({"user", line});
    const butterfly::Answer answer = model.chat(messages, {.temperature = 0}, [](const std::string& piece) {
      std::cout << piece << std::flush;
      return true;  // false would end the answer here
    });
    std::cout << "\n[" << answer.tokens << " tokens in " << answer.total_s << " s]\n";
    messages.push_back({"assistant", answer.text});
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 1;
}
