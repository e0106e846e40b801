#include "model/grammar/schema_formats.h"

namespace butterfly::model::grammar {

namespace {

struct FormatRow {
  std::string_view name;
  const char* expression;
};

#define BF_DAY_OF_MONTH                                                                     \
  "(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|" \
  "02-(?:0[1-9]|1[0-9]|2[0-8]))"
// Years that have a 29th of February: divisible by 4, by 100 only if by 400.
#define BF_LEAP_YEAR "(?:[0-9]{2}(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)"
#define BF_DATE "(?:[0-9]{4}-" BF_DAY_OF_MONTH "|" BF_LEAP_YEAR "-02-29)"
#define BF_OFFSET "(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])"
// A leap second ends a day of universal time; only there it is accepted.
#define BF_TIME                                                           \
  "(?:(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]+)?" BF_OFFSET \
  "|23:59:60(?:\\.[0-9]+)?(?:[Zz]|[+-]00:00))"
#define BF_OCTET "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
#define BF_IPV4 "(?:" BF_OCTET "\\.){3}" BF_OCTET
#define BF_H16 "[0-9A-Fa-f]{1,4}"
#define BF_LS32 "(?:" BF_H16 ":" BF_H16 "|" BF_IPV4 ")"
#define BF_IPV6                                                                                       \
  "(?:(?:" BF_H16 ":){6}" BF_LS32 "|::(?:" BF_H16 ":){5}" BF_LS32 "|(?:" BF_H16 ")?::(?:" BF_H16      \
  ":){4}" BF_LS32 "|(?:(?:" BF_H16 ":){0,1}" BF_H16 ")?::(?:" BF_H16 ":){3}" BF_LS32 "|(?:(?:" BF_H16 \
  ":){0,2}" BF_H16 ")?::(?:" BF_H16 ":){2}" BF_LS32 "|(?:(?:" BF_H16 ":){0,3}" BF_H16 ")?::" BF_H16   \
  ":" BF_LS32 "|(?:(?:" BF_H16 ":){0,4}" BF_H16 ")?::" BF_LS32 "|(?:(?:" BF_H16 ":){0,5}" BF_H16      \
  ")?::" BF_H16 "|(?:(?:" BF_H16 ":){0,6}" BF_H16 ")?::)"
#define BF_LABEL "[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
// The expression has no room for the limit of 253 characters: each label has its own.
#define BF_HOSTNAME BF_LABEL "(?:\\." BF_LABEL ")*"
#define BF_ATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define BF_QUOTED "\"(?:[^\"\\\\\\r\\n]|\\\\[ -~])*\""
#define BF_PCT "%[0-9A-Fa-f]{2}"
#define BF_PCHAR "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|" BF_PCT ")"
#define BF_SEGMENTS "(?:/" BF_PCHAR "*)*"
#define BF_AUTHORITY                                                                           \
  "(?:(?:[A-Za-z0-9._~!$&'()*+,;=:-]|" BF_PCT ")*@)?(?:\\[(?:" BF_IPV6                         \
  "|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:[A-Za-z0-9._~!$&'()*+,;=-]|" BF_PCT \
  ")*)(?::[0-9]*)?"
#define BF_TAIL "(?:\\?(?:" BF_PCHAR "|[/?])*)?(?:#(?:" BF_PCHAR "|[/?])*)?"
#define BF_SCHEME "[A-Za-z][A-Za-z0-9+.-]*:"
#define BF_URI                                                                                               \
  BF_SCHEME "(?://" BF_AUTHORITY BF_SEGMENTS "|/(?:" BF_PCHAR "+" BF_SEGMENTS ")?|" BF_PCHAR "+" BF_SEGMENTS \
            "|)" BF_TAIL
#define BF_SEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@-]|" BF_PCT ")+"
#define BF_RELATIVE                                                                                 \
  "(?://" BF_AUTHORITY BF_SEGMENTS "|/(?:" BF_PCHAR "+" BF_SEGMENTS ")?|" BF_SEGMENT_NC BF_SEGMENTS \
  "|)" BF_TAIL
// The same with characters outside ASCII.
#define BF_ICHAR                                                                                      \
  "(?:[A-Za-z0-9._~!$&'()*+,;=:@\\u00A0-\\uD7FF\\uF900-\\uFDCF\\uFDF0-\\uFFEF\\u{10000}-\\u{EFFFD}-]" \
  "|" BF_PCT ")"
#define BF_IHOST                                                                                            \
  "(?:\\[(?:" BF_IPV6                                                                                       \
  "|[Vv][0-9A-Fa-f]+\\.[A-Za-z0-9._~!$&'()*+,;=:-]+)\\]|(?:[A-Za-z0-9._~!$&'()*+,;=\\u00A0-\\uD7FF\\uF900-" \
  "\\uFFEF-]|" BF_PCT ")*)"
#define BF_IAUTHORITY "(?:" BF_ICHAR "*@)?" BF_IHOST "(?::[0-9]*)?"
#define BF_ISEGMENTS "(?:/" BF_ICHAR "*)*"
#define BF_ITAIL \
  "(?:\\?(?:" BF_ICHAR "|[/?\\uE000-\\uF8FF\\u{F0000}-\\u{10FFFD}])*)?(?:#(?:" BF_ICHAR "|[/?])*)?"
#define BF_IRI                                                                                  \
  BF_SCHEME "(?://" BF_IAUTHORITY BF_ISEGMENTS "|/(?:" BF_ICHAR "+" BF_ISEGMENTS ")?|" BF_ICHAR \
            "+" BF_ISEGMENTS "|)" BF_ITAIL
#define BF_ISEGMENT_NC "(?:[A-Za-z0-9._~!$&'()*+,;=@\\u00A0-\\uD7FF\\uF900-\\uFFEF-]|" BF_PCT ")+"
#define BF_IRELATIVE                                                                                     \
  "(?://" BF_IAUTHORITY BF_ISEGMENTS "|/(?:" BF_ICHAR "+" BF_ISEGMENTS ")?|" BF_ISEGMENT_NC BF_ISEGMENTS \
  "|)" BF_ITAIL
#define BF_IATEXT "[A-Za-z0-9!#$%&'*+/=?^_`{|}~\\u00A0-\\u{10FFFF}-]+"
#define BF_ILABEL "[A-Za-z0-9\\u00A0-\\uFEFF](?:[A-Za-z0-9\\u00A0-\\uFEFF-]{0,61}[A-Za-z0-9\\u00A0-\\uFEFF])?"
#define BF_VARSPEC "(?:[A-Za-z0-9_]|" BF_PCT ")(?:\\.?(?:[A-Za-z0-9_]|" BF_PCT "))*(?::[1-9][0-9]{0,3}|\\*)?"

constexpr FormatRow kFormats[] = {
    {"date", "^" BF_DATE "$"},
    {"time", "^" BF_TIME "$"},
    {"date-time", "^" BF_DATE "[Tt]" BF_TIME "$"},
    {"duration",
     "^P(?:(?:[0-9]+D|[0-9]+M(?:[0-9]+D)?|[0-9]+Y(?:[0-9]+M(?:[0-9]+D)?)?)"
     "(?:T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S))?"
     "|T(?:[0-9]+H(?:[0-9]+M(?:[0-9]+S)?)?|[0-9]+M(?:[0-9]+S)?|[0-9]+S)|[0-9]+W)$"},
    {"email", "^(?:" BF_ATEXT "(?:\\." BF_ATEXT ")*|" BF_QUOTED ")@(?:" BF_HOSTNAME "|\\[(?:" BF_IPV4
              "|IPv6:" BF_IPV6 ")\\])$"},
    {"idn-email", "^" BF_IATEXT "(?:\\." BF_IATEXT ")*@" BF_ILABEL "(?:\\." BF_ILABEL ")*$"},
    {"hostname", "^" BF_HOSTNAME "$"},
    {"ipv4", "^" BF_IPV4 "$"},
    {"ipv6", "^" BF_IPV6 "$"},
    {"uuid", "^[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}$"},
    {"uri", "^" BF_URI "$"},
    {"uri-reference", "^(?:" BF_URI "|" BF_RELATIVE ")$"},
    {"iri", "^" BF_IRI "$"},
    {"iri-reference", "^(?:" BF_IRI "|" BF_IRELATIVE ")$"},
    {"uri-template", "^(?:[^\\u0000-\\u0020\\u007F-\\u009F\"%<>\\\\^`{|}]|" BF_PCT
                     "|\\{[+#./;?&=,!@|]?" BF_VARSPEC "(?:," BF_VARSPEC ")*\\})*$"},
    {"json-pointer", "^(?:/(?:[^~/]|~[01])*)*$"},
    {"relative-json-pointer", "^(?:0|[1-9][0-9]*)(?:#|(?:/(?:[^~/]|~[01])*)*)$"},
};

}  // namespace

bool is_refused_format(std::string_view format) { return format == "idn-hostname" || format == "regex"; }

const char* format_expression(std::string_view format) {
  for (const FormatRow& row : kFormats)
    if (row.name == format) return row.expression;
  return nullptr;
}

}  // namespace butterfly::model::grammar
