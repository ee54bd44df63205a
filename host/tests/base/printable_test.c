/* printable_test.c - texts of any bytes become fit for a terminal and for JSON, and numbers have
 * a point. */
#include "system/printable.h"

#include "base/base.h"
#include "testing.h"

#include <locale.h>

TEST_THAT(characters_of_utf_8_have_their_sizes) {
  static const struct {
    const char *text;
    size_t size;
  } cases[] = {
      {"", 1},
      {"a", 1},
      {"\x1b", 1},
      {"\x7f", 1},
      {"\xc2\x80", 2},
      {"\xdf\xbf", 2},
      {"\xe0\xa0\x80", 3},
      {"\xed\x9f\xbf", 3},
      {"\xee\x80\x80", 3},
      {"\xef\xbf\xbd", 3},
      {"\xf0\x90\x80\x80", 4},
      {"\xf4\x8f\xbf\xbf", 4},
      /* what begins no character, and what is cut off */
      {"\x80", 0},
      {"\xbf", 0},
      {"\xc3", 0},
      {"\xc3(", 0},
      {"\xe2\x82", 0},
      {"\xe2", 0},
      {"\xf0\x9f\x92", 0},
      {"\xfe", 0},
      {"\xff", 0},
      /* in more bytes than it needs */
      {"\xc0\x80", 0},
      {"\xc1\xbf", 0},
      {"\xe0\x9f\xbf", 0},
      {"\xf0\x8f\xbf\xbf", 0},
      /* surrogates, what is above Unicode, and what is never a character */
      {"\xed\xa0\x80", 0},
      {"\xed\xbf\xbf", 0},
      {"\xf4\x90\x80\x80", 0},
      {"\xf5\x80\x80\x80", 0},
      {"\xef\xbf\xbe", 0},
  };
  for (size_t i = 0; i < KEEL_COUNT_OF(cases); i++)
    if (keel_utf8_size(cases[i].text) != cases[i].size)
      fail_msg("case %zu has %zu bytes, not %zu", i,
               keel_utf8_size(cases[i].text), cases[i].size);
}

/* A text, and what a terminal and JSON get of it. */
static const struct {
  const char *text, *printable, *json;
} texts[] = {
    {"", "", "\"\""},
    {"plain \"\\/ text", "plain \"\\/ text", "\"plain \\\"\\\\/ text\""},
    {"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x92\xbb",
     "caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x92\xbb",
     "\"caf\xc3\xa9 \xe6\xbc\xa2 \xf0\x9f\x92\xbb\""},
    {"\x1b[31m", "?[31m", "\"\\u001b[31m\""},
    {"\a\b\r\x7f", "????", "\"\\u0007\\u0008\\u000d\\u007f\""},
    {"a\nb\tc", "a?b?c", "\"a\\nb\\u0009c\""},
    {"\xc2\x9b"
     "31m",
     "??31m", "\"\\u009b31m\""},
    {"\xe2\x80\xae\xe2\x81\xa6\xe2\x80\xa8", "?????????",
     "\"\\u202e\\u2066\\u2028\""},
    {"\xff\xfe.", "??.", "\"\\ufffd\\ufffd.\""},
    {"\xed\xa0\x80", "???", "\"\\ufffd\\ufffd\\ufffd\""},
    {"cut \xe6\xbc", "cut ??", "\"cut \\ufffd\\ufffd\""},
    {"\xc3\x1b[0m", "??[0m", "\"\\ufffd\\u001b[0m\""},
    {"\xf0\x9f\xc3\xa9", "??\xc3\xa9", "\"\\ufffd\\ufffd\xc3\xa9\""},
};

TEST_THAT(a_terminal_gets_characters_alone) {
  char text[100];
  for (size_t i = 0; i < KEEL_COUNT_OF(texts); i++) {
    snprintf(text, sizeof text, "%s", texts[i].text);
    assert_ptr_equal(keel_make_printable(text, ""), text);
    assert_string_equal(text, texts[i].printable);
  }
  snprintf(text, sizeof text, "a\n\tb\r\x1b");
  assert_string_equal(keel_make_printable(text, "\n\t"), "a\n\tb??");
}

static void expect_json(const char *text, const char *want) {
  char *got = NULL;
  size_t size = 0;
  FILE *file = open_memstream(&got, &size);
  assert_non_null(file);
  keel_write_json(file, text);
  fclose(file);
  assert_string_equal(got, want);
  free(got);
}

TEST_THAT(json_is_valid_whatever_the_text) {
  expect_json(NULL, "\"\"");
  for (size_t i = 0; i < KEEL_COUNT_OF(texts); i++)
    expect_json(texts[i].text, texts[i].json);
}

/* Two bytes of any kind between others. */
TEST_THAT(no_two_bytes_get_through) {
  for (unsigned pair = 0x101; pair <= 0xffff; pair++) {
    char text[] = {'<', (char)(pair >> 8), (char)pair, '>', 0};
    size_t size = strlen(text);
    keel_make_printable(text, "");
    assert_int_equal(strlen(text), size);
    for (const char *at = text; *at; at += keel_utf8_size(at)) {
      unsigned char c = (unsigned char)*at;
      assert_true(keel_utf8_size(at) > 0 && c >= ' ' && c != 0x7f);
      assert_false(c == 0xc2 && (unsigned char)at[1] < 0xa0);
    }
  }
}

TEST_THAT(messages_are_printable) {
  keel_fail(KD_INTERNAL, "node \"%s\"\nfails", "\x1b]0;x\a\xff");
  assert_string_equal(keel_message(), "node \"?]0;x??\"\nfails");
  keel_while(KD_INTERNAL, "while %s ran", "\xc2\x9b");
  assert_string_equal(keel_message(), "node \"?]0;x??\"\nfails; while ?? ran");
}

static char logged[256];

static void keep_line(void *context, uint32_t level, const char *line) {
  (void)context, (void)level;
  snprintf(logged, sizeof logged, "%s", line);
}

TEST_THAT(log_lines_are_printable) {
  const keel_log log = {.level = KD_LOG_INFO, .write = keep_line};
  keel_log_line(&log, KD_LOG_INFO, "device \"%s\"", "\x1b[2J\xfe");
  assert_string_equal(logged, "device \"?[2J?\"");
}

/* Where the application's locale has a comma in numbers, and is installed; the test `texts` makes
 * such a locale. */
TEST_THAT(numbers_of_messages_have_a_point) {
  const keel_log log = {.level = KD_LOG_INFO, .write = keep_line};
  if (!setlocale(LC_ALL, "de_DE.UTF-8")) skip();
  keel_fail(KD_INTERNAL, "after %.1f s", 0.5);
  keel_log_line(&log, KD_LOG_INFO, "%.2f ms", 1.25);
  bool comma = *localeconv()->decimal_point == ',';
  setlocale(LC_ALL, "C");
  assert_true(comma); /* and the locale is as it was */
  assert_string_equal(keel_message(), "after 0.5 s");
  assert_string_equal(logged, "1.25 ms");
}

RUN_TESTS(NULL, NULL)
