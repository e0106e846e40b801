// The pre-tokenizers that model files name, with the expressions published with each model.
//
// `steps` cut as llama.cpp does for that name. It writes (?i:'s) as '[sS] and, for tekken and gpt-4o, takes
// every letter beyond ASCII for both upper and lower case, and knows no case at all in others; `original` has
// the models' own form for those who open a tokenizer.json. Expressions are written so that no text makes
// PCRE2 look at a stretch again from every place in it: (?<!\s)\s+$ for \s+$, groups of three digits by
// SplitKind instead of by look-ahead.
#include "model/tokenizer/pre_tokenizer.h"

namespace butterfly::model {
namespace {

using Names = std::string_view;

#define BF_CONTRACTIONS "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
#define BF_ANY_CASE_CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define BF_WORDS R"(|[^\r\n\p{L}\p{N}]?\p{L}+|)"
#define BF_REST R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define BF_REST_SLASH R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
#define BF_GPT2 R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"
// Words by case: capitals, then small letters. [^\P{L}a-z] is a letter that is not a-z.
#define BF_LLAMA_CPP_CASED(suffix)                       \
  R"([^\r\n\p{L}\p{N}]?[^\P{L}a-z]*[^\P{L}A-Z]+)" suffix \
  R"(|[^\r\n\p{L}\p{N}]?[^\P{L}a-z]+[^\P{L}A-Z]*)" suffix
#define BF_CASED(suffix)                                                                   \
  R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)" suffix \
  R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)" suffix

// llama.cpp knows \p{Lu} and its like only as letters.
#define BF_UNCASED(suffix) R"([^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+)" suffix

constexpr SplitStep kDefault[] = {{R"([\p{P}\$\+<=>\^~\|]+)"}, {BF_GPT2}, {R"(\p{N}+)"}, {"[0-9][0-9][0-9]"}};

constexpr std::string_view kGpt2Original[] = {BF_GPT2};
constexpr SplitStep kGpt2[] = {{BF_GPT2}};

constexpr std::string_view kDigitsGpt2Original[] = {R"(\p{N})", BF_GPT2};
constexpr SplitStep kDigitsGpt2[] = {{R"(\p{N})"}, {BF_GPT2}};

constexpr std::string_view kLlama3Original[] = {BF_ANY_CASE_CONTRACTIONS BF_WORDS R"(\p{N}{1,3})" BF_REST};
constexpr SplitStep kLlama3[] = {{BF_CONTRACTIONS BF_WORDS R"(\p{N}{1,3})" BF_REST}};

constexpr std::string_view kQwen2Original[] = {BF_ANY_CASE_CONTRACTIONS BF_WORDS R"(\p{N})" BF_REST};
constexpr SplitStep kQwen2[] = {{BF_CONTRACTIONS BF_WORDS R"(\p{N})" BF_REST}};

#define BF_QWEN35 \
  R"(|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view kQwen35Original[] = {BF_ANY_CASE_CONTRACTIONS BF_QWEN35};
constexpr SplitStep kQwen35[] = {{BF_CONTRACTIONS BF_QWEN35}};

#define BF_JAIS2_SPACES                                                                             \
  R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S))" \
  R"(|\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1})"
constexpr std::string_view kJais2Original[] = {BF_ANY_CASE_CONTRACTIONS BF_WORDS
                                               R"(\p{N}{1,3})" BF_JAIS2_SPACES};
constexpr SplitStep kJais2[] = {{BF_CONTRACTIONS BF_WORDS R"(\p{N}{1,3})" BF_JAIS2_SPACES}};

#define BF_DEEPSEEK_LETTERS \
  R"(\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+)"
#define BF_DEEPSEEK_ASIAN R"([一-龥ࠀ-一가-퟿]+)"
// To llama.cpp white space beyond ASCII lies in no range of characters.
#define BF_DEEPSEEK_ASIAN_NO_SPACE R"((?:(?!\s)[一-龥ࠀ-一가-퟿])+)"
constexpr std::string_view kDeepseekLlmOriginal[] = {
    R"([\r\n])", BF_DEEPSEEK_LETTERS, R"(\s?[!-/:-~！-／：-～‘-‟　-。]+)",
    R"(\s+$)",   BF_DEEPSEEK_ASIAN,   R"(\p{N}+)"};
constexpr SplitStep kDeepseekLlm[] = {
    {R"([\r\n])"},      {BF_DEEPSEEK_LETTERS},        {R"(\s?[!-/:-~！-／：-～‘-‟、。]+)"},
    {R"((?<!\s)\s+$)"}, {BF_DEEPSEEK_ASIAN_NO_SPACE}, {R"(\p{N}+)"}};

constexpr std::string_view kDeepseekCoderOriginal[] = {R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)",
                                                       BF_DEEPSEEK_ASIAN, R"(\p{N})"};
constexpr SplitStep kDeepseekCoder[] = {
    {R"([\r\n])"}, {R"(\s?\p{L}+)"}, {R"(\s?\p{P}+)"}, {BF_DEEPSEEK_ASIAN_NO_SPACE}, {R"(\p{N})"}};

#define BF_DEEPSEEK3                                                                        \
  R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)" \
  R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr std::string_view kDeepseek3Original[] = {R"(\p{N}{1,3})", R"([一-龥぀-ゟ゠-ヿ]+)",
                                                   BF_DEEPSEEK3};
constexpr SplitStep kDeepseek3[] = {{R"(\p{N}{1,3})"}, {R"([一-龥぀-ゟ゠-ヿ]+)"}, {BF_DEEPSEEK3}};

#define BF_YOUTU_ASIAN \
  R"([가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+)"
constexpr std::string_view kYoutuOriginal[] = {
    BF_YOUTU_ASIAN, BF_CASED(BF_ANY_CASE_CONTRACTIONS "?") R"(|\p{N})" BF_REST_SLASH};
constexpr SplitStep kYoutu[] = {{BF_YOUTU_ASIAN},
                                {BF_UNCASED(BF_CONTRACTIONS "?") R"(|\p{N})" BF_REST_SLASH}};

// llama.cpp has no step for whole numbers here; tokenizer.json has.
constexpr SplitStep kFalcon[] = {{R"([\p{P}\$\+<=>\^~\|`]+)"}, {BF_GPT2}, {"[0-9][0-9][0-9]"}};
constexpr std::string_view kFalconOriginal[] = {R"([\p{P}!-/:-@\[-`{-~]+)", BF_GPT2, R"(\p{N}+)",
                                                "[0-9][0-9][0-9]"};

constexpr std::string_view kBloomOriginal[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)"};
constexpr SplitStep kBloom[] = {{R"( ?[^(\s|.,!?…。，、।۔،)]+)"}};
constexpr std::string_view kVikingOriginal[] = {R"( ?[^(\s|.,!?…。，、।۔،)]+)", R"(\p{N})"};
constexpr SplitStep kViking[] = {{R"( ?[^(\s|.,!?…。，、।۔،)]+)"}, {R"(\p{N})"}};

constexpr std::string_view kTekkenOriginal[] = {BF_CASED("") R"(|\p{N})" BF_REST_SLASH};
constexpr SplitStep kTekken[] = {{BF_LLAMA_CPP_CASED("") R"(|\p{N})" BF_REST_SLASH}};
constexpr std::string_view kGpt4oOriginal[] = {
    BF_CASED(BF_ANY_CASE_CONTRACTIONS "?") R"(|\p{N}{1,3})" BF_REST_SLASH};
constexpr SplitStep kGpt4o[] = {{BF_LLAMA_CPP_CASED(BF_CONTRACTIONS "?") R"(|\p{N}{1,3})" BF_REST_SLASH}};

// As gpt-4o's, with marks as parts of words.
constexpr SplitStep kGraniteEmbed[] = {
    {R"([^\r\n\p{L}\p{N}]?(?:(?![a-z])[\p{L}\p{M}])*(?:(?![A-Z])[\p{L}\p{M}])+)" BF_CONTRACTIONS "?"
     R"(|[^\r\n\p{L}\p{N}]?(?:(?![a-z])[\p{L}\p{M}])+(?:(?![A-Z])[\p{L}\p{M}])*)" BF_CONTRACTIONS
     R"(?|\p{N}{1,3})" BF_REST_SLASH}};

// As gpt-4o's, with thousands: \d{1,3}(?=(?:\d{3})*\b) is every number that ends at a word boundary, in
// threes. llama.cpp cuts any number, and not before it.
constexpr SplitStep kTinyAya[] = {{R"(\p{N}+)", SplitKind::kCutBehindThrees},
                                  {BF_UNCASED(BF_CONTRACTIONS "?") R"(|\p{N}{1,3})" BF_REST_SLASH}};
constexpr std::string_view kTinyAyaOriginal[] = {
    R"(\d{1,3}(?=(?:\d{3})*\b))", BF_CASED(BF_ANY_CASE_CONTRACTIONS "?") R"(|\p{N}{1,3})" BF_REST_SLASH};
constexpr SplitStep kTinyAyaOriginalSteps[] = {
    {R"((?<!\d)\d++(?!\w))", SplitKind::kIsolateInThrees},
    {BF_CASED(BF_ANY_CASE_CONTRACTIONS "?") R"(|\p{N}{1,3})" BF_REST_SLASH}};

#define BF_AFMOE_ASIAN                                                                                    \
  R"([\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{f900}-\x{faff}\x{3040}-\x{309f}\x{30a0}-\x{30ff})"             \
  R"(\x{ff65}-\x{ff9f}\x{2f00}-\x{2fdf}\x{e40}-\x{e7f}\x{e80}-\x{eff}\x{1780}-\x{17ff}\x{1000}-\x{109f})" \
  R"(\x{aa60}-\x{aa7f}\x{a9e0}-\x{a9ff}\x{ac00}-\x{d7af}\x{1100}-\x{11ff}]+)"
constexpr SplitStep kAfmoe[] = {{R"(\p{N}+)", SplitKind::kCutBehindThrees}, {BF_AFMOE_ASIAN}, {BF_DEEPSEEK3}};

// (?=(\d{3})+(?!\d)) cuts numbers into threes from the right.
constexpr SplitStep kSuperBpe[] = {{R"(\p{N}+)"}, {"[0-9]++", SplitKind::kCutBeforeThrees}};
constexpr std::string_view kSuperBpeOriginal[] = {R"(\p{N}+)", R"((?=(\d{3})+(?!\d)))"};
constexpr SplitStep kSuperBpeOriginalSteps[] = {{R"(\p{N}+)"}, {R"(\d++)", SplitKind::kCutBeforeThrees}};

constexpr std::string_view kChameleonOriginal[] = {
    "<sentinel:[0-9]+>",       "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    R"(([\t\n]|    |  ))",     R"(\p{N})",
    R"([\p{P}!-/:-@\[-`{-~])", BF_GPT2};
constexpr SplitStep kChameleon[] = {{"<sentinel:[0-9]+>"}, {"IMGIMG[A-I]{1,4}Z"},       {R"([\t\n]|    |  )"},
                                    {R"(\p{N})"},          {R"([\p{P}!-/:-@\[-`{-~])"}, {BF_GPT2}};

#define BF_BAILING R"(|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"
constexpr SplitStep kBailing[] = {{"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])" BF_BAILING}};
constexpr std::string_view kBailingOriginal[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};

#define BF_SEED R"(\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"
constexpr SplitStep kSeedCoder[] = {{BF_CONTRACTIONS BF_WORDS BF_SEED}};
constexpr std::string_view kSeedCoderOriginal[] = {BF_ANY_CASE_CONTRACTIONS BF_WORDS BF_SEED};

#define BF_EXAONE_MOE_REST R"(|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+)"
constexpr SplitStep kExaoneMoe[] = {
    {BF_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?\p{L}\p{M}*+(?: ?\p{L}\p{M}*+)*+)" BF_EXAONE_MOE_REST}};
constexpr std::string_view kExaoneMoeOriginal[] = {
    BF_ANY_CASE_CONTRACTIONS R"(|[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+)" BF_EXAONE_MOE_REST};

// Chinese characters apart; other words whatever their case. The model's own form has words by case as
// gpt-4o's, llama.cpp's has not.
#define BF_HAN                                                                                   \
  R"(\x{4e00}-\x{9fff}\x{3400}-\x{4dbf}\x{20000}-\x{2a6df}\x{2a700}-\x{2ebef}\x{f900}-\x{faff})" \
  R"(\x{2f800}-\x{2fa1f})"
constexpr SplitStep kKimi[] = {
    {"[" BF_HAN R"(]+|[^\r\n\p{L}\p{N}]?[^\P{L})" BF_HAN "]+" BF_CONTRACTIONS R"(?|\p{N}{1,3})" BF_REST}};

constexpr SplitStep kLaguna[] = {{R"([^\n]+|[\n]+)"}, {BF_CONTRACTIONS BF_WORDS R"(\p{N})" BF_REST}};
constexpr SplitStep kMiniCpm5[] = {{R"(\p{N}{1,3})"}, {BF_CONTRACTIONS BF_WORDS R"(\p{N}+)" BF_REST}};
constexpr std::string_view kMiniCpm5Original[] = {R"(\p{N}{1,3})",
                                                  BF_ANY_CASE_CONTRACTIONS BF_WORDS R"(\p{N}+)" BF_REST};
constexpr SplitStep kLines[] = {{R"([^\n]+|[\n]+)"}};

constexpr Names kDefaultNames[] = {"default"};
constexpr Names kGpt2Names[] = {
    "gpt-2",      "phi-2",      "mpt",      "olmo",    "jais",   "trillion",    "jina-es", "jina-de",
    "jina-v2-es", "jina-v2-de", "gigachat", "a.x-4.0", "mellum", "modern-bert", "exaone4", "granite-docling"};
constexpr Names kRobertaNames[] = {"roberta-bpe", "jina-v1-en", "jina-v2-code"};
constexpr Names kDigitsGpt2Names[] = {"starcoder", "refact", "command-r",  "smollm",
                                      "codeshell", "exaone", "minerva-7b", "mellum2"};
constexpr Names kLlama3Names[] = {"llama-bpe", "llama3",   "llama-v3", "falcon3",     "falcon-h1",
                                  "pixtral",   "midm-2.0", "lfm2",     "jina-v5-nano"};
constexpr Names kDbrxNames[] = {"dbrx", "smaug-bpe", "chatglm-bpe", "glm4"};
constexpr Names kQwen2Names[] = {"qwen2", "deepseek-r1-qwen", "stablelm2",  "megrez", "hunyuan",
                                 "kormo", "f2llmv2",          "solar-open", "grok-2"};
constexpr Names kQwen35Names[] = {"qwen35"};
constexpr Names kJais2Names[] = {"jais-2"};
constexpr Names kDeepseekLlmNames[] = {"deepseek-llm"};
constexpr Names kDeepseekCoderNames[] = {"deepseek-coder"};
constexpr Names kDeepseek3Names[] = {"deepseek-v3", "hunyuan-dense", "joyai-llm"};
constexpr Names kYoutuNames[] = {"youtu"};
constexpr Names kFalconNames[] = {"falcon"};
constexpr Names kBloomNames[] = {"bloom", "gpt3-finnish", "poro-chat"};
constexpr Names kVikingNames[] = {"viking"};
constexpr Names kTekkenNames[] = {"tekken"};
constexpr Names kGpt4oNames[] = {"gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"};
constexpr Names kGraniteEmbedNames[] = {"granite-embed-multi-97m"};
constexpr Names kAfmoeNames[] = {"afmoe"};
constexpr Names kTinyAyaNames[] = {"tiny_aya", "cohere2moe"};
constexpr Names kSuperBpeNames[] = {"superbpe"};
constexpr Names kChameleonNames[] = {"chameleon"};
constexpr Names kBailingNames[] = {"bailingmoe", "bailingmoe2", "llada-moe"};
constexpr Names kSeedCoderNames[] = {"seed-coder"};
constexpr Names kExaoneMoeNames[] = {"exaone-moe"};
constexpr Names kKimiNames[] = {"kimi-k2"};
constexpr Names kLagunaNames[] = {"laguna"};
constexpr Names kMiniCpm5Names[] = {"minicpm5"};
constexpr Names kGemma4Names[] = {"gemma4", "granite-embed-multi-311m", "sarvam-moe"};

constexpr PreTokenizerRow kRows[] = {
    {.names = kGpt2Names, .steps = kGpt2, .original = kGpt2Original},
    {.names = kLlama3Names,
     .steps = kLlama3,
     .original = kLlama3Original,
     .original_differs = true,
     .ignore_merges = true,
     .add_bos = true},
    {.names = kDbrxNames, .steps = kLlama3, .original = kLlama3Original, .original_differs = true},
    {.names = kQwen2Names, .steps = kQwen2, .original = kQwen2Original, .original_differs = true},
    {.names = kQwen35Names, .steps = kQwen35, .original = kQwen35Original, .original_differs = true},
    {.names = kDigitsGpt2Names, .steps = kDigitsGpt2, .original = kDigitsGpt2Original},
    {.names = kDefaultNames, .steps = kDefault, .original = {}},
    {.names = kRobertaNames, .steps = kGpt2, .original = {}, .add_sep = true},
    {.names = kJais2Names, .steps = kJais2, .original = kJais2Original, .original_differs = true},
    {.names = kDeepseekLlmNames,
     .steps = kDeepseekLlm,
     .original = kDeepseekLlmOriginal,
     .original_differs = true},
    {.names = kDeepseekCoderNames,
     .steps = kDeepseekCoder,
     .original = kDeepseekCoderOriginal,
     .original_differs = true},
    {.names = kDeepseek3Names, .steps = kDeepseek3, .original = kDeepseek3Original},
    {.names = kYoutuNames,
     .steps = kYoutu,
     .original = kYoutuOriginal,
     .original_differs = true,
     .ignore_merges = true},
    {.names = kFalconNames, .steps = kFalcon, .original = kFalconOriginal, .original_differs = true},
    {.names = kBloomNames, .steps = kBloom, .original = kBloomOriginal},
    {.names = kVikingNames, .steps = kViking, .original = kVikingOriginal},
    {.names = kTekkenNames,
     .steps = kTekken,
     .original = kTekkenOriginal,
     .original_differs = true,
     .ignore_merges = true,
     .add_bos = true},
    {.names = kGpt4oNames, .steps = kGpt4o, .original = kGpt4oOriginal, .original_differs = true},
    {.names = kGraniteEmbedNames, .steps = kGraniteEmbed, .original = {}, .ignore_merges = true},
    {.names = kTinyAyaNames,
     .steps = kTinyAya,
     .original = kTinyAyaOriginal,
     .original_differs = true,
     .original_steps = kTinyAyaOriginalSteps},
    {.names = kAfmoeNames, .steps = kAfmoe, .original = {}},
    {.names = kSuperBpeNames,
     .steps = kSuperBpe,
     .original = kSuperBpeOriginal,
     .original_differs = true,
     .original_steps = kSuperBpeOriginalSteps},
    {.names = kChameleonNames, .steps = kChameleon, .original = kChameleonOriginal, .add_bos = true},
    {.names = kBailingNames, .steps = kBailing, .original = kBailingOriginal},
    {.names = kSeedCoderNames, .steps = kSeedCoder, .original = kSeedCoderOriginal, .original_differs = true},
    {.names = kExaoneMoeNames, .steps = kExaoneMoe, .original = kExaoneMoeOriginal},
    {.names = kKimiNames, .steps = kKimi, .original = {}},
    {.names = kLagunaNames, .steps = kLaguna, .original = {}},
    {.names = kMiniCpm5Names,
     .steps = kMiniCpm5,
     .original = kMiniCpm5Original,
     .original_differs = true,
     .ignore_merges = true},
    {.names = kGemma4Names, .steps = kLines, .original = {}, .raw_text = true, .escape_spaces = true},
};

}  // namespace

const std::string_view kGpt2Regex = BF_GPT2;

std::span<const PreTokenizerRow> pre_tokenizer_rows() { return kRows; }

}  // namespace butterfly::model
