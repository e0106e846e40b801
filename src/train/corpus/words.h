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

inline constexpr std::array<Person, 24> kPeople = {
    {{"Anna", true},  {"Ben", false},   {"Clara", true}, {"David", false}, {"Emma", true}, {"Felix", false},
     {"Grace", true}, {"Henry", false}, {"Ida", true},   {"Jack", false},  {"Kate", true}, {"Leo", false},
     {"Mia", true},   {"Noah", false},  {"Olga", true},  {"Paul", false},  {"Rosa", true}, {"Sam", false},
     {"Tina", true},  {"Tom", false},   {"Vera", true},  {"Will", false},  {"Zoe", true},  {"Max", false}}};

inline constexpr std::array<Text, 16> kPlaces = {
    "park",    "garden", "forest", "school", "market",  "library", "beach",  "farm",
    "kitchen", "river",  "museum", "bakery", "station", "castle",  "meadow", "village"};

inline constexpr std::array<Text, 14> kColours = {"red",   "blue",   "green",  "yellow", "white",
                                                  "black", "brown",  "purple", "orange", "pink",
                                                  "grey",  "golden", "silver", "small"};

// One and many.
struct Thing {
  Text one, many;
  friend bool operator==(const Thing& a, const Thing& b) { return a.one == b.one; }
};
inline constexpr std::array<Thing, 20> kThings = {
    {{"apple", "apples"},   {"ball", "balls"},     {"book", "books"},     {"cup", "cups"},
     {"pear", "pears"},     {"stone", "stones"},   {"shell", "shells"},   {"coin", "coins"},
     {"flower", "flowers"}, {"pencil", "pencils"}, {"cake", "cakes"},     {"egg", "eggs"},
     {"key", "keys"},       {"kite", "kites"},     {"boat", "boats"},     {"hat", "hats"},
     {"leaf", "leaves"},    {"nut", "nuts"},       {"ribbon", "ribbons"}, {"lamp", "lamps"}}};

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

}  // namespace butterfly::train
