// The words of the small world that the corpus speaks of.
#pragma once
#include <array>
#include <string>
#include <string_view>

namespace butterfly::train {

using Text = std::string_view;

// He, she: by name, so that stories can speak of people.
struct Person {
  Text name;
  bool she;
  Text subject() const { return she ? "she" : "he"; }
  Text Subject() const { return she ? "She" : "He"; }
  Text object() const { return she ? "her" : "him"; }
  Text owner() const { return she ? "her" : "his"; }
  friend bool operator==(const Person& a, const Person& b) { return a.name == b.name; }
};

inline constexpr std::array<Person, 16> kPeople = {{{"Anna", true},
                                                    {"Ben", false},
                                                    {"Clara", true},
                                                    {"David", false},
                                                    {"Emma", true},
                                                    {"Felix", false},
                                                    {"Ida", true},
                                                    {"Jack", false},
                                                    {"Kate", true},
                                                    {"Leo", false},
                                                    {"Mia", true},
                                                    {"Noah", false},
                                                    {"Rosa", true},
                                                    {"Sam", false},
                                                    {"Vera", true},
                                                    {"Tom", false}}};

inline constexpr std::array<Text, 12> kPlaces = {"park",  "garden", "forest", "school", "market", "library",
                                                 "beach", "farm",   "river",  "museum", "castle", "village"};

inline constexpr std::array<Text, 10> kColours = {"red",   "blue",  "green",  "yellow", "white",
                                                  "black", "brown", "orange", "pink",   "silver"};

// One and many.
struct Thing {
  Text one, many;
  friend bool operator==(const Thing& a, const Thing& b) { return a.one == b.one; }
};
inline constexpr std::array<Thing, 14> kThings = {{{"apple", "apples"},
                                                   {"ball", "balls"},
                                                   {"book", "books"},
                                                   {"cup", "cups"},
                                                   {"stone", "stones"},
                                                   {"shell", "shells"},
                                                   {"coin", "coins"},
                                                   {"flower", "flowers"},
                                                   {"cake", "cakes"},
                                                   {"egg", "eggs"},
                                                   {"key", "keys"},
                                                   {"kite", "kites"},
                                                   {"hat", "hats"},
                                                   {"leaf", "leaves"}}};

struct Animal {
  Text name, sound, home;
  friend bool operator==(const Animal& a, const Animal& b) { return a.name == b.name; }
};
inline constexpr std::array<Animal, 12> kAnimals = {{{"dog", "barks", "kennel"},
                                                     {"cat", "meows", "house"},
                                                     {"cow", "moos", "barn"},
                                                     {"duck", "quacks", "pond"},
                                                     {"bird", "sings", "nest"},
                                                     {"lion", "roars", "savanna"},
                                                     {"frog", "croaks", "pond"},
                                                     {"bee", "buzzes", "hive"},
                                                     {"horse", "neighs", "stable"},
                                                     {"sheep", "bleats", "field"},
                                                     {"owl", "hoots", "tree"},
                                                     {"wolf", "howls", "forest"}}};

inline constexpr std::array<Text, 7> kDays = {"Monday", "Tuesday",  "Wednesday", "Thursday",
                                              "Friday", "Saturday", "Sunday"};
inline constexpr std::array<Text, 12> kMonths = {"January",   "February", "March",    "April",
                                                 "May",       "June",     "July",     "August",
                                                 "September", "October",  "November", "December"};

inline std::string with_article(Text word) {
  const bool vowel = word.find_first_of("aeiou") == 0;
  return (vowel ? "an " : "a ") + std::string(word);
}

// For the beginning of a sentence.
inline std::string capital(std::string text) {
  if (!text.empty() && text[0] >= 'a' && text[0] <= 'z') text[0] = static_cast<char>(text[0] - 'a' + 'A');
  return text;
}

}  // namespace butterfly::train
