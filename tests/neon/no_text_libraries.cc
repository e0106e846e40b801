// Stand-ins for the two libraries of the tokenizers, which are not there for 64-bit Arm. Fingerprints need no
// tokenizer: a call of any of these is a mistake in this build.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>

#include <cstdlib>

extern "C" {

void pcre2_code_free(pcre2_code*) { std::abort(); }
pcre2_code* pcre2_compile(PCRE2_SPTR, PCRE2_SIZE, uint32_t, int*, PCRE2_SIZE*, pcre2_compile_context*) {
  std::abort();
}
int pcre2_get_error_message(int, PCRE2_UCHAR*, PCRE2_SIZE) { std::abort(); }
PCRE2_SIZE* pcre2_get_ovector_pointer(pcre2_match_data*) { std::abort(); }
int pcre2_jit_compile(pcre2_code*, uint32_t) { std::abort(); }
int pcre2_jit_match(const pcre2_code*, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data*,
                    pcre2_match_context*) {
  std::abort();
}
int pcre2_match(const pcre2_code*, PCRE2_SPTR, PCRE2_SIZE, PCRE2_SIZE, uint32_t, pcre2_match_data*,
                pcre2_match_context*) {
  std::abort();
}
pcre2_match_data* pcre2_match_data_create_from_pattern(const pcre2_code*, pcre2_general_context*) {
  std::abort();
}
void pcre2_match_data_free(pcre2_match_data*) { std::abort(); }

utf8proc_category_t utf8proc_category(utf8proc_int32_t) { std::abort(); }
const char* utf8proc_errmsg(utf8proc_ssize_t) { std::abort(); }
utf8proc_ssize_t utf8proc_map(const utf8proc_uint8_t*, utf8proc_ssize_t, utf8proc_uint8_t**,
                              utf8proc_option_t) {
  std::abort();
}
utf8proc_int32_t utf8proc_tolower(utf8proc_int32_t) { std::abort(); }

}  // extern "C"
