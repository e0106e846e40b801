// What compiling and following a grammar may cost. Grammars and schemas come from clients.
#pragma once
#include <cstddef>
#include <cstdint>

namespace butterfly::model::grammar {

inline constexpr size_t kSourceBytesMax = size_t{512} << 10;  // of a grammar or a schema
inline constexpr int kNestingMax = 128;             // of groups, expressions and schemas in a source
inline constexpr uint32_t kRepetitionMax = 10'000;  // {m,n}, and counts in a pattern
inline constexpr size_t kNfaStatesMax = 60'000;
inline constexpr size_t kDfaStatesMax = 30'000;
inline constexpr size_t kDfaCellsMax = size_t{4} << 20;   // states x classes of bytes
inline constexpr uint64_t kCompileStepsMax = 10'000'000;  // for all of a schema; about a second
inline constexpr size_t kSchemaNodesMax = 50'000;
inline constexpr size_t kPointerBytesMax = 1024;      // of the place of a subschema, in messages
inline constexpr size_t kLiteralSetsMax = 20'000;     // schemas in conjunction that can meet at one place
inline constexpr size_t kAlternativesMax = 400;       // ways to satisfy one such set
inline constexpr size_t kExpansionStepsMax = 50'000;  // spent on finding them
inline constexpr size_t kDepthMax = 200;              // of arrays and objects in a generated text
inline constexpr int kBlanksMax = 160;                // white space in one place of a generated text
inline constexpr int kBlanksInLineMax = 8;            // before a line break; behind it so many for each level
inline constexpr int kLineBreaksMax = 2;              // among it
inline constexpr int64_t kMaskWorkMax = 10'000'000;   // of one mask; about half a second
inline constexpr size_t kDigitsMax = 400;             // of a bound of numbers

}  // namespace butterfly::model::grammar
