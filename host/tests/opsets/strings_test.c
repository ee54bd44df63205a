/* strings_test.c - tensors of strings: made, read, moved, compared, cast, written and read again;
 * and what is refused. */
#include <locale.h>
#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "files.h"
#include "threads/cancel.h"

#define WORKERS 2
#include "with_cpu.h"

static keel_tensor *texts(uint32_t rank, const int64_t *dims,
                          const char *const *strings) {
  keel_tensor *tensor = NULL;
  expect_ok(keel_strings_create(context, rank, dims, strings, NULL, &tensor));
  return tensor;
}

static keel_tensor *list(int64_t count, const char *const *strings) {
  return texts(1, &count, strings);
}

static keel_tensor *ints(int64_t count, const int64_t *numbers) {
  return create_tensor(context, KD_I64, 1, &count, numbers);
}

/* The tensor is that list, and goes. */
static void expect_list(keel_tensor *tensor, int64_t count,
                        const char *const *want) {
  assert_int_equal(keel_tensor_dtype(tensor), KD_STRING);
  assert_int_equal(keel_tensor_elements(tensor), count);
  for (int64_t i = 0; i < count; i++) {
    const char *got = NULL;
    uint64_t size = 0;
    expect_ok(keel_strings_at(tensor, i, &got, &size));
    assert_string_equal(got, want[i]);
    assert_int_equal(size, strlen(want[i]));
  }
  keel_tensor_release(tensor);
}

/* An op whose inputs go, and its one output. */
static keel_tensor *call(const char *name, const keel_attr *attrs,
                         uint32_t attr_count, keel_tensor *a, keel_tensor *b,
                         keel_tensor *c) {
  keel_tensor *inputs[] = {a, b, c};
  uint32_t count = c ? 3 : b ? 2 : 1;
  keel_tensor *output =
      call_op(context, name, attrs, attr_count, inputs, count);
  release_all(inputs, count);
  return output;
}

/* The call fails, and says so; the inputs go. */
static void expect_refused(const char *name, const keel_attr *attrs,
                           uint32_t attr_count, keel_tensor *a, keel_tensor *b,
                           const char *says) {
  keel_tensor *inputs[] = {a, b}, *output = NULL;
  keel_status status = keel_call(context, name, attrs, attr_count, inputs,
                                 b ? 2 : 1, &output, 1);
  if (status == KD_OK) status = keel_tensor_wait(output);
  keel_tensor_release(output);
  assert_int_not_equal(status, KD_OK);
  expect_message(says);
  release_all(inputs, b ? 2 : 1);
}

/* A list of strings as an attribute. */
#define STRINGS(NAME, COUNT, LIST)                             \
  {                                                            \
    .name = (NAME), .kind = KD_ATTR_STRINGS, .count = (COUNT), \
    .strings = (LIST)                                          \
  }

static const char *const words[] = {"pear", "", "Apfel", "pear", "kiwi"};

/* ---- values ------------------------------------------------------------------------ */

TEST_THAT(strings_are_what_was_given) {
  const char *const given[] = {"a\0b", "", "Größe", "\xff"};
  const uint64_t sizes[] = {3, 0, 7, 1};
  const char *got = NULL;
  uint64_t size = 0;
  keel_tensor *tensor = NULL;
  char text[40];
  expect_ok(keel_strings_create(context, DIMS(2, 2), given, sizes, &tensor));
  assert_string_equal(keel_tensor_text(tensor, text, sizeof text), "str[2,2]");
  assert_null(keel_tensor_device(tensor));
  for (int64_t i = 0; i < 4; i++) {
    expect_ok(keel_strings_at(tensor, i, &got, &size));
    assert_int_equal(size, sizes[i]);
    assert_memory_equal(got, given[i], size);
    assert_int_equal(got[size], 0);
  }
  expect_ok(keel_strings_at(tensor, 0, &got, NULL));
  assert_int_equal(keel_strings_at(tensor, 4, &got, NULL), KD_OUT_OF_RANGE);
  assert_int_equal(keel_strings_at(tensor, -1, &got, NULL), KD_OUT_OF_RANGE);
  keel_tensor_release(tensor);
}

TEST_THAT(strings_are_no_data) {
  const int64_t two = 2, open = -1;
  const char *const missing[] = {"a", NULL};
  const char *got = NULL;
  keel_tensor *tensor = list(5, words), *other = NULL, *numbers = ints(1, &two);
  assert_int_equal(keel_tensor_size(tensor), 0);
  assert_null(keel_tensor_data(tensor));
  assert_int_equal(keel_tensor_read(tensor, &other, 0), KD_INVALID_ARGUMENT);
  assert_int_equal(keel_strings_at(numbers, 0, &got, NULL),
                   KD_INVALID_ARGUMENT);
  assert_int_equal(
      keel_tensor_create(context, KD_STRING, 1, &two, NULL, &other),
      KD_INVALID_ARGUMENT);
  assert_non_null(strstr(keel_message(), "keel_strings_create"));
  assert_int_equal(
      keel_tensor_fill(context, NULL, KD_STRING, 1, &two, NULL, &other),
      KD_INVALID_ARGUMENT);
  assert_int_equal(keel_strings_create(context, 1, &two, missing, NULL, &other),
                   KD_INVALID_ARGUMENT);
  assert_int_equal(
      keel_strings_create(context, 1, &open, missing, NULL, &other),
      KD_INVALID_ARGUMENT);
  /* a device does not get them */
  keel_device *cpu = find_device(context, "cpu:0");
  expect_ok(keel_tensor_to(tensor, cpu, &other));
  assert_ptr_equal(other, tensor);
  RELEASE(other, tensor, numbers);
}

TEST_THAT(a_promise_may_become_strings) {
  const char *const want[] = {"kiwi", "pear"};
  const int64_t which[] = {4, 0};
  keel_tensor *promise = NULL, *value = list(5, words), *output = NULL;
  expect_ok(keel_tensor_promise(context, &promise));
  keel_tensor *inputs[] = {promise, ints(2, which)};
  expect_ok(keel_call(context, "Gather", NULL, 0, inputs, 2, &output, 1));
  expect_ok(keel_tensor_fulfil(promise, value));
  expect_ok(keel_tensor_wait(output));
  expect_list(output, 2, want);
  release_all(inputs, 2);
  keel_tensor_release(value);
}

/* ---- ops that devices have kernels for ---------------------------------------------- */

TEST_THAT(elements_move) {
  const char *const joined[] = {"pear", "", "Apfel", "pear", "kiwi", "x"};
  const char *const repeated[] = {"a", "b", "a", "b"};
  const char *const padded[] = {"", "", "x", "pad"};
  const char *const pair[] = {"a", "b"}, *const one[] = {"x"};
  const int64_t twice = 2, pads[] = {2, 1}, ends[] = {2, 0};
  const keel_attr axis = KEEL_INT("axis", 0);
  expect_list(call("Concat", &axis, 1, list(5, words), list(1, one), NULL), 6,
              joined);
  expect_list(call("Tile", NULL, 0, list(2, pair), ints(1, &twice), NULL), 4,
              repeated);
  const int64_t second = 1;
  const char *const scattered[] = {"a", "x"};
  expect_list(call("ScatterElements", &axis, 1, list(2, pair), ints(1, &second),
                   list(1, one)),
              2, scattered);
  /* what is filled without a value is empty */
  expect_list(call("Pad", NULL, 0, list(1, one), ints(2, ends), NULL), 3,
              padded);
  keel_tensor *value = texts(0, NULL, &padded[3]);
  const char *const both[] = {"pad", "pad", "x", "pad"};
  expect_list(call("Pad", NULL, 0, list(1, one), ints(2, pads), value), 4,
              both);
}

TEST_THAT(strings_are_compared) {
  const char *const with[] = {"pear"};
  const uint8_t want[] = {1, 0, 0, 1, 0};
  const char *const distinct[] = {"", "Apfel", "kiwi", "pear"};
  uint8_t got[5];
  keel_tensor *equal =
      call("Equal", NULL, 0, list(5, words), list(1, with), NULL);
  expect_ok(keel_tensor_read(equal, got, sizeof got));
  assert_memory_equal(got, want, sizeof got);
  keel_tensor_release(equal);
  expect_list(call("Unique", NULL, 0, list(5, words), NULL, NULL), 4, distinct);
}

TEST_THAT(what_strings_do_not_allow_is_refused) {
  const int64_t zero = 0;
  const keel_attr axis = KEEL_INT("axis", 0),
                  add = KEEL_STRING("reduction", "add");
  expect_refused("Add", NULL, 0, list(5, words), list(5, words),
                 "takes no strings");
  expect_refused("Concat", &axis, 1, list(5, words), ints(1, &zero),
                 "can't be mixed");
  expect_refused("Gather", NULL, 0, list(5, words), list(1, words),
                 "indices can't be strings");
  expect_refused("com.microsoft::QuickGelu", NULL, 0, list(5, words), NULL,
                 "takes no strings");
  /* sums of the numbers that stand for strings are none */
  const char *const base[] = {"a", "b"}; /* 1 and 2: 1 + 1 would be "b" */
  const int64_t dims[] = {1, 1}, at = 0;
  keel_tensor *inputs[] = {list(2, base),
                           create_tensor(context, KD_I64, 2, dims, &at),
                           list(1, base)};
  keel_tensor *output = NULL;
  assert_int_equal(
      keel_call(context, "ScatterND", &add, 1, inputs, 3, &output, 1),
      KD_INVALID_ARGUMENT);
  assert_non_null(strstr(keel_message(), "computes with its elements"));
  release_all(inputs, 3);
}

/* ---- Cast --------------------------------------------------------------------------- */

static keel_tensor *cast(keel_tensor *tensor, kd_dtype dtype) {
  const keel_attr to = KEEL_INT("to", dtype);
  return call("Cast", &to, 1, tensor, NULL, NULL);
}

static void refuse_cast(const char *text, kd_dtype dtype, const char *says) {
  const keel_attr to = KEEL_INT("to", dtype);
  expect_refused("Cast", &to, 1, list(1, &text), NULL, says);
}

/* Where the application's locale has a comma in numbers, and is installed. */
TEST_THAT(numbers_have_a_point_in_any_locale) {
  const float half[] = {0.5f, -1.25f};
  const char *const want[] = {"0.5", "-1.25"};
  if (!setlocale(LC_NUMERIC, "de_DE.UTF-8")) skip();
  keel_tensor *strings = cast(floats(context, 2, half), KD_STRING);
  keel_tensor *back = cast(keel_tensor_retain(strings), KD_F32);
  setlocale(LC_NUMERIC, "C");
  expect_list(strings, 2, want);
  expect_floats(back, half, 2);
  keel_tensor_release(back);
}

/* A sequence, or a value that is not there, has no type that could be cast. */
TEST_THAT(only_tensors_are_cast) {
  const keel_attr text = KEEL_INT("to", KD_STRING);
  keel_tensor *item = list(5, words), *sequence = NULL, *empty = NULL;
  expect_ok(keel_sequence_create(context, &item, 1, &sequence));
  expect_ok(keel_optional_empty(context, &empty));
  expect_refused("Cast", &text, 1, sequence, NULL, "not a tensor");
  expect_refused("Cast", &text, 1, empty, NULL, "not a tensor");
  expect_ok(keel_sequence_create(context, &item, 1, &sequence));
  expect_refused("CastLike", NULL, 0, item, sequence, "not a tensor");
}

TEST_THAT(numbers_become_text) {
  const float numbers[] = {0.1f, -3, 1e-5f, 16777216, INFINITY, -INFINITY, NAN};
  const char *const want[] = {"0.1", "-3",   "1e-05", "16777216",
                              "INF", "-INF", "NaN"};
  const uint64_t large = UINT64_MAX;
  const char *const largest[] = {"18446744073709551615"};
  expect_list(cast(floats(context, 7, numbers), KD_STRING), 7, want);
  expect_list(cast(create_tensor(context, KD_U64, DIMS(1), &large), KD_STRING),
              1, largest);
}

TEST_THAT(text_becomes_numbers) {
  const char *const given[] = {"0.1", " -3 ", "1e2", "INF", "-inf"};
  const float want[] = {0.1f, -3, 100, INFINITY, -INFINITY};
  const char *const whole[] = {"127", "-128", "3.9"};
  const int8_t bytes[] = {127, -128, 3};
  int8_t got[3];
  keel_tensor *read = cast(list(5, given), KD_F32);
  expect_floats(read, want, 5);
  keel_tensor_release(read);
  read = cast(list(3, whole), KD_I8);
  expect_ok(keel_tensor_read(read, got, sizeof got));
  assert_memory_equal(got, bytes, sizeof got);
  keel_tensor_release(read);
  refuse_cast("128", KD_I8, "\"128\"");
  refuse_cast("-1", KD_U64, "\"-1\"");
  refuse_cast("1x", KD_F32, "\"1x\"");
  refuse_cast("", KD_F32, "\"\"");
  refuse_cast("nan", KD_I8, "\"nan\"");
}

/* ---- ops of strings ------------------------------------------------------------------ */

TEST_THAT(letters_change_beyond_ascii) {
  const char *const given[] = {"straße Ä", "ÉTÉ", "\xc3", "日本"};
  const char *const want[] = {"straße ä", "été", "\xc3", "日本"};
  const char *const stop[] = {"ÉTÉ", "日本"};
  const char *const rest[] = {"straße Ä", "\xc3"};
  const keel_attr lower = KEEL_STRING("case_change_action", "LOWER");
  const keel_attr stopwords = STRINGS("stopwords", 2, stop);
  expect_list(call("StringNormalizer", &lower, 1, list(4, given), NULL, NULL),
              4, want);
  expect_list(
      call("StringNormalizer", &stopwords, 1, list(4, given), NULL, NULL), 2,
      rest);
}

TEST_THAT(blanks_split_as_python_does) {
  const char *const given[] = {" a\tb  c ", "", "d"};
  const char *const want[] = {"a", "b", "c", "", "", "", "d", "", ""};
  const char *const cut[] = {"a", "b  c ", "", "", "d", ""};
  const keel_attr one = KEEL_INT("maxsplit", 1),
                  less = KEEL_INT("maxsplit", -1);
  expect_list(call("StringSplit", NULL, 0, list(3, given), NULL, NULL), 9,
              want);
  expect_list(call("StringSplit", &one, 1, list(3, given), NULL, NULL), 6, cut);
  expect_refused("StringSplit", &less, 1, list(3, given), NULL, "maxsplit");
}

TEST_THAT(a_bad_expression_is_said) {
  const keel_attr bad = KEEL_STRING("pattern", "(a");
  const keel_attr slow = KEEL_STRING("pattern", "(a*)*[bd]");
  const char *const given[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"};
  const char *const broken[] = {"\xff"};
  static char text[65538];
  memset(text, '[', sizeof text - 1);
  const keel_attr large = KEEL_STRING("pattern", text);
  expect_refused("RegexFullMatch", &bad, 1, list(1, given), NULL,
#ifdef KEEL_WITH_PCRE2
                 "byte 2");
  expect_refused("RegexFullMatch", &slow, 1, list(1, given), NULL,
                 "can't be matched");
  expect_refused("RegexFullMatch", &slow, 1, list(1, broken), NULL, "UTF-8");
  expect_refused("RegexFullMatch", &large, 1, list(1, given), NULL,
                 "65537 bytes");
#else
                 "PCRE2");
  (void)slow;
  (void)broken;
  (void)large;
#endif
}

#ifdef KEEL_WITH_PCRE2
/* What RE2 takes and PCRE2 refuses, or reads as something else. */
TEST_THAT(expressions_mean_what_they_do_in_re2) {
  static const struct {
    const char *pattern, *all, *none; /* strings that match, and that do not */
  } rows[] = {
      {"\\s", "\f", "\v"},
      {"\\S", "\v", "\t"},
      {"[\\s]", "\r", "\v"},
      {"[^\\s]", "\v", "\n"},
      {"[\\S\\n]+", "a\n\v", "a\t"},
      {"\\v", "\v", "\n"},
      {"[\\va]+", "a\v", "a\r"},
      {"^*a", "a", "^a"},
      {"a$+", "a", "a$"},
      {"\\A{2}a\\z*", "a", "Aa"},
      {"(?:\\b)?a\\b+", "a", "ab"},
      {"(?P<1a>b)", "b", "1a"},
      {"(?P<n\u00e9>a)(?P<m>b)", "ab", "a"},
      {"(?<n>a)", "a", "n"},
      {"[[.a.]+", ".[a", "]"},
      {"[[:foo]+", ":[o", "b"},
      {"[]a[]+", "a][", "b"},
      {"[\\w-.]+", "a-.", "a,"},
      {"[[:alpha:]-9]+", "a-9", "5"},
      {"[^[:^digit:]]+", "12", "a"},
      {"\\Qa.[b\\E+", "a.[bb", "ax[b"},
      {"\\Qa\\", "a\\", "a"},
      {"\\Qa^b", "a^b", "ab"},
      {"\\Q[a", "[a", "a"},
      {"c\\Q\\s$", "c\\s$", "c "},
      {"\\p{Greek}\\x{41}\\pL", "\u03b1Aa", "aAa"},
      {"[\\pL-9]+", "a-9", "5"},
      {"[\\PL-]+", "-5", "a"},
      {"[\\p{Greek}-9]+", "\u03b1-9", "a"},
      {"[\\x41-C]+", "ABC", "-"},
      {"a.b$", "axb", "axb\n"},
      {"", "", "a"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const keel_attr pattern = KEEL_STRING("pattern", rows[i].pattern);
    const char *const given[] = {rows[i].all, rows[i].none};
    keel_tensor *got =
        call("RegexFullMatch", &pattern, 1, list(2, given), NULL, NULL);
    bool matches[2];
    expect_ok(keel_tensor_read(got, matches, sizeof matches));
    keel_tensor_release(got);
    if (!matches[0] || matches[1])
      fail_msg("%s: %d %d", rows[i].pattern, matches[0], matches[1]);
  }
}

/* Tokens between matches of separators, or that match an expression. */
static uint32_t tokenizer(keel_attr *attrs, const char *token, uint32_t count,
                          const char *const *separators) {
  attrs[0] = (keel_attr)KEEL_INT("mark", 0);
  attrs[1] = (keel_attr)KEEL_INT("mincharnum", 0);
  attrs[2] = (keel_attr)KEEL_STRING("pad_value", "#");
  attrs[3] = token ? (keel_attr)KEEL_STRING("tokenexp", token)
                   : (keel_attr)STRINGS("separators", count, separators);
  return 4;
}

/* PCRE2 lets a group that is called in a lookbehind set the begin of the match. */
TEST_THAT(a_match_begins_where_it_is_looked_for) {
  keel_attr attrs[4];
  const char *const given[] = {"xab cab ab"};
  const char *const back[] = {"a|(?<=(?1))b(?(DEFINE)(\\Ka))",
                              "(?<=(?1))(?(DEFINE)(\\Ka))"};
  for (int i = 0; i < 2; i++) {
    uint32_t count = tokenizer(attrs, NULL, 1, &back[i]);
    expect_refused("com.microsoft::Tokenizer", attrs, count, list(1, given),
                   NULL, "\\K");
    count = tokenizer(attrs, back[i], 0, NULL);
    expect_refused("com.microsoft::Tokenizer", attrs, count, list(1, given),
                   NULL, "\\K");
  }
}

#define SEPARATORS 100000 /* more than a stack has frames */
#define LETTERS    400000 /* too many to look at all of them for each */

TEST_THAT(many_separators_and_tokens_end) {
  keel_attr attrs[4];
  const char *const given[] = {"one;two  three"};
  const char *const want[] = {"one", "two", "three"};
  const char **separators = calloc(SEPARATORS, sizeof *separators);
  char *text = calloc(LETTERS + 1, 1);
  const char *const long_text[] = {text};
  for (int i = 0; i < SEPARATORS; i++)
    separators[i] = i == 5 ? ";" : i == 7 ? " " : "q";
  uint32_t count = tokenizer(attrs, NULL, SEPARATORS, separators);
  expect_list(call("com.microsoft::Tokenizer", attrs, count, list(1, given),
                   NULL, NULL),
              3, want);
  memset(text, 'a', LETTERS);
  for (int i = 1; i < LETTERS; i += 2)
    text[i] = ' ';
  count = tokenizer(attrs, NULL, 1, &separators[7]);
  keel_tensor *tokens = call("com.microsoft::Tokenizer", attrs, count,
                             list(1, long_text), NULL, NULL);
  assert_int_equal(keel_tensor_elements(tokens), LETTERS / 2);
  keel_tensor_release(tokens);
  free(separators);
  free(text);
}
#endif

static const int64_t counts[] = {0, 2}, indexes[] = {0, 2, 1};
static const char *const pool[] = {"pear", "kiwi", "pear", ""};

/* Of "pear", "kiwi" and the pair of "pear" and "". */
static uint32_t vectorizer(keel_attr *attrs) {
  static const float weights[] = {1, 2, 4};
  attrs[0] = (keel_attr)KEEL_INT("max_gram_length", 2);
  attrs[1] = (keel_attr)KEEL_INT("min_gram_length", 1);
  attrs[2] = (keel_attr)KEEL_INT("max_skip_count", 0);
  attrs[3] = (keel_attr)KEEL_STRING("mode", "TFIDF");
  attrs[4] = (keel_attr)KEEL_INTS("ngram_counts", 2, counts);
  attrs[5] = (keel_attr)KEEL_INTS("ngram_indexes", 3, indexes);
  attrs[6] = (keel_attr)STRINGS("pool_strings", 4, pool);
  attrs[7] = (keel_attr){
      .name = "weights", .kind = KD_ATTR_FLOATS, .count = 3, .floats = weights};
  return 8;
}

static keel_plan *vectorizer_plan(void) {
  keel_attr attrs[8];
  keel_builder *builder = create_builder(context, "counts");
  int64_t open = -1;
  keel_value x = keel_builder_input(builder, "x", KD_STRING, 1, &open);
  keel_value y = keel_builder_op(builder, "TfIdfVectorizer", attrs,
                                 vectorizer(attrs), &x, 1);
  return plan_giving(builder, y, NULL);
}

static void *count_words(void *plan) {
  const float want[] = {2, 4, 2};
  for (int i = 0; i < 50; i++) {
    keel_tensor *x = list(5, words), *y = output_of(plan, &x, 1);
    expect_floats(y, want, 3);
    RELEASE(x, y);
  }
  return NULL;
}

/* The pool is made once, by whoever comes first. */
TEST_THAT(threads_share_a_pool) {
  pthread_t threads[3];
  keel_plan *plan = vectorizer_plan();
  for (int i = 0; i < 3; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, count_words, plan), 0);
  for (int i = 0; i < 3; i++)
    pthread_join(threads[i], NULL);
  keel_plan_release(plan);
}

TEST_THAT(a_pool_that_does_not_fit_is_refused) {
  keel_attr attrs[8];
  uint32_t count = vectorizer(attrs);
  const int64_t odd[] = {0, 1}, two[] = {0, 1}, far[] = {0, 1, -1};
  attrs[4] = (keel_attr)KEEL_INTS("ngram_counts", 2, odd);
  expect_refused("TfIdfVectorizer", attrs, count, list(5, words), NULL,
                 "into n-grams");
  vectorizer(attrs);
  attrs[5] = (keel_attr)KEEL_INTS("ngram_indexes", 2, two);
  attrs[7].count = 2;
  expect_refused("TfIdfVectorizer", attrs, count, list(5, words), NULL,
                 "3 n-grams");
  vectorizer(attrs);
  attrs[5] = (keel_attr)KEEL_INTS("ngram_indexes", 3, far);
  expect_refused("TfIdfVectorizer", attrs, count, list(5, words), NULL, "-1");
  vectorizer(attrs);
  expect_refused("TfIdfVectorizer", attrs, count, ints(2, counts), NULL,
                 "pool is of strings");
  /* more may be skipped than there is */
  const float want[] = {2, 4, 2};
  attrs[2] = (keel_attr)KEEL_INT("max_skip_count", INT64_MAX);
  keel_tensor *row =
      call("TfIdfVectorizer", attrs, count, list(5, words), NULL, NULL);
  expect_floats(row, want, 3);
  keel_tensor_release(row);
}

/* ---- programs and files --------------------------------------------------------------- */

/* x, and its places among constants. */
static keel_program *with_constants(void) {
  const int64_t dims[] = {2, 2}, flat = -1;
  const char *const keys[] = {"a\"b\\", "Größe", "", "pear"};
  keel_builder *builder = create_builder(context, "strings");
  keel_value x = keel_builder_input(builder, "x", KD_STRING, DIMS(1));
  keel_value all = constant_of(builder, texts(2, dims, keys));
  keel_value row = op(builder, "Reshape", all, add_ints(builder, 1, &flat));
  keel_attr axis = KEEL_INT("axis", 0);
  keel_value pair[] = {row, x};
  keel_value y = keel_builder_op(builder, "Concat", &axis, 1, pair, 2);
  expect_ok(keel_builder_output(builder, "y", y));
  expect_ok(keel_builder_output(builder, "all", all));
  return finish_program(builder);
}

static void expect_constants(keel_program *program) {
  const char *const one[] = {"x"};
  const char *const want[] = {"a\"b\\", "Größe", "", "pear", "x"};
  keel_plan *plan = create_plan(program, NULL);
  keel_tensor *x = list(1, one), *y[2] = {NULL};
  expect_ok(keel_plan_run(plan, &x, 1, y, 2));
  expect_list(y[0], 5, want);
  expect_list(y[1], 4, want);
  RELEASE(x, plan);
}

TEST_THAT(saved_programs_have_their_strings) {
  const uint32_t forms[] = {0, KEEL_SAVE_TEXT};
  for (int i = 0; i < 2; i++) {
    char path[] = "/tmp/keel-strings-XXXXXX";
    make_file(path);
    keel_program *program = with_constants();
    expect_constants(program);
    expect_ok(keel_program_save(program, path, forms[i]));
    keel_program_release(program);
    program = load_program(context, path);
    expect_constants(program);
    keel_program_release(program);
    unlink(path);
  }
}

TEST_THAT(numpy_files_have_strings) {
  char path[] = "/tmp/keel-strings-XXXXXX";
  const char *const given[] = {"日本", "", "\U0001f332 a"};
  keel_tensor *tensor = list(3, given), *read = NULL;
  make_file(path);
  expect_ok(keel_value_save(tensor, path));
  expect_ok(keel_value_load(context, path, KEEL_FILE_TENSOR, &read));
  expect_list(read, 3, given);
  /* a file that ends too early */
  assert_int_equal(truncate(path, 140), 0);
  assert_int_equal(keel_value_load(context, path, KEEL_FILE_TENSOR, &read),
                   KD_DATA_LOSS);
  keel_tensor_release(tensor);
  unlink(path);
}

/* Strings of no characters have no bytes in a file, which may say to have any number. */
TEST_THAT(numpy_files_have_not_too_many) {
  const char begin[] = "\x93NUMPY\x01\x00\x76"; /* and 0: the header's length */
  char path[] = "/tmp/keel-strings-XXXXXX";
  keel_tensor *read = NULL;
  FILE *file = fdopen(mkstemp(path), "w");
  assert_non_null(file);
  fwrite(begin, 1, sizeof begin, file);
  fprintf(file, "%-117s\n",
          "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }");
  assert_int_equal(fclose(file), 0);
  assert_int_equal(keel_value_load(context, path, KEEL_FILE_TENSOR, &read),
                   KD_OUT_OF_RANGE);
  unlink(path);
}

static const int64_t zeros[1];
static const char *const one_word[] = {"a"};

/* Ops of the runtime itself end with their run, and their memory counts. */
static const struct {
  const char *op;
  uint32_t inputs;
  keel_attr attrs[7];
} long_ops[] = {
    {"StringNormalizer",
     1,
     {KEEL_STRING("case_change_action", "UPPER"), KEEL_STRING("locale", "C")}},
    {"StringConcat", 2, {{0}}},
    {"StringSplit", 1, {{0}}},
    {"StringSplit", 1, {KEEL_STRING("delimiter", " ")}},
#ifdef KEEL_WITH_PCRE2
    {"RegexFullMatch", 1, {KEEL_STRING("pattern", "a.*")}},
#endif
    {"TfIdfVectorizer",
     1,
     {KEEL_STRING("mode", "TF"), KEEL_INT("min_gram_length", 1),
      KEEL_INT("max_gram_length", 1), KEEL_INT("max_skip_count", 0),
      KEEL_INTS("ngram_counts", 1, zeros), KEEL_INTS("ngram_indexes", 1, zeros),
      STRINGS("pool_strings", 1, one_word)}},
};

static keel_status call_long(uint32_t row, keel_context *in,
                             keel_tensor *strings) {
  keel_tensor *inputs[] = {strings, strings}, *out[2] = {NULL, NULL};
  uint32_t count = 0;
  while (count < 7 && long_ops[row].attrs[count].name)
    count++;
  keel_status status =
      keel_call(in, long_ops[row].op, long_ops[row].attrs, count, inputs,
                long_ops[row].inputs, out,
                strcmp(long_ops[row].op, "StringSplit") ? 1 : 2);
  release_all(out, 2);
  return status;
}

#define MANY 40000

static keel_tensor *many(keel_context *in) {
  const char **rows = malloc(MANY * sizeof *rows);
  keel_tensor *made = NULL;
  for (int i = 0; i < MANY; i++)
    rows[i] = "a b c d e f";
  expect_ok(keel_strings_create(in, DIMS(MANY), rows, NULL, &made));
  free(rows);
  return made;
}

TEST_THAT(ops_end_with_their_run) {
  const keel_cancellation due = {.deadline = 1};
  keel_tensor *strings = many(context);
  for (uint32_t i = 0; i < sizeof long_ops / sizeof *long_ops; i++) {
    expect_ok(call_long(i, context, strings));
    const keel_cancellation *before = keel_cancellation_use(&due);
    assert_int_equal(call_long(i, context, strings), KD_DEADLINE_EXCEEDED);
    keel_cancellation_use(before);
    expect_message(long_ops[i].op);
  }
  keel_tensor_release(strings);
}

#ifdef KEEL_WITH_PCRE2
/* A match that would take long ends between two attempts. */
TEST_THAT(a_match_ends_with_its_run) {
  const char *const text[] = {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"};
  const keel_attr pattern = KEEL_STRING("pattern", "(a*)*[bd]");
  keel_tensor *x = list(1, text), *out = NULL;
  assert_int_equal(
      keel_call(context, "RegexFullMatch", &pattern, 1, &x, 1, &out, 1),
      KD_INVALID_ARGUMENT); /* too many steps */
  const keel_cancellation soon = keel_cancellation_of(NULL, 10000000);
  const keel_cancellation *before = keel_cancellation_use(&soon);
  assert_int_equal(
      keel_call(context, "RegexFullMatch", &pattern, 1, &x, 1, &out, 1),
      KD_DEADLINE_EXCEEDED);
  keel_cancellation_use(before);
  keel_tensor_release(x);
}

#define SLOW 2000 /* strings: seconds of matches, none of which is cut off */

/* Strings of matches that each take some thousand steps. */
static keel_tensor *slow_strings(void) {
  static const char *rows[SLOW];
  for (int i = 0; i < SLOW; i++)
    rows[i] = "aaaaaaaaaaaac";
  return list(SLOW, rows);
}

/* The time of a run ends between two matches. */
TEST_THAT(many_matches_end_with_their_run) {
  static const char *const slow = "(a*)*[bd]";
  keel_attr token[4], separator[4];
  uint32_t count = tokenizer(token, slow, 0, NULL);
  tokenizer(separator, NULL, 1, &slow);
  const keel_attr pattern = KEEL_STRING("pattern", slow);
  const struct {
    const char *op, *says;
    const keel_attr *attrs;
    uint32_t count;
  } rows[] = {{"RegexFullMatch", "RegexFullMatch", &pattern, 1},
              {"com.microsoft::Tokenizer", "Tokenizer", token, count},
              {"com.microsoft::Tokenizer", "Tokenizer", separator, count}};
  keel_tensor *x = slow_strings(), *out = NULL;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const keel_cancellation soon = keel_cancellation_of(NULL, 10000000);
    const keel_cancellation *before = keel_cancellation_use(&soon);
    keel_status status = keel_call(context, rows[i].op, rows[i].attrs,
                                   rows[i].count, &x, 1, &out, 1);
    keel_cancellation_use(before);
    expect_fails(status, KD_DEADLINE_EXCEEDED, rows[i].says);
    assert_null(out);
  }
  keel_tensor_release(x);
}
#endif

TEST_THAT(strings_count) {
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .workers = KEEL_NO_WORKERS,
                                .memory_limit = 1200000};
  keel_stats stats;
  keel_context *small = open_params(&params);
  keel_tensor *strings = many(small); /* 800 KB */
  for (uint32_t i = 0; i < 4; i++) {
    expect_fails(call_long(i, small, strings), KD_OUT_OF_MEMORY,
                 "limit of 1200000 bytes");
  }
  keel_get_stats(small, &stats);
  assert_true(stats.tensor_bytes >= 800000 && stats.tensor_bytes < 900000);
  keel_tensor_release(strings);
  keel_get_stats(small, &stats);
  assert_int_equal(stats.tensor_bytes, 0);
  keel_close(small);
}

RUN_TESTS(open_cpu, close_context)
