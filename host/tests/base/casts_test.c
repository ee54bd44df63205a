/* casts_test.c - numbers that become shorter are rounded once, and floats that become integers
 * follow one rule (defs/whole.h), wherever they are cast. */
#include <math.h>

#include <kd/help.h>

#include "base/float.h"
#include "on_devices.h"

typedef union number {
  double f64;
  int64_t i64;
  uint64_t u64;
  int32_t i32;
  uint32_t u32;
  uint16_t u16;
  uint8_t u8;
} number;

typedef struct row {
  kd_dtype from, to;
  number x, want;
} row;

/* Each lies beside the middle of two numbers of its target, and would be rounded to that
 * middle first. */
static const row rows[] = {
    {KD_F64, KD_F16, {65519.99999999}, {.u16 = 0x7bff}},
    {KD_F64, KD_F16, {-65519.99999999}, {.u16 = 0xfbff}},
    {KD_F64, KD_F16, {0x1.002p0 + 0x1p-40}, {.u16 = 0x3c01}},
    {KD_F64, KD_F16, {0x1.006p0 - 0x1p-40}, {.u16 = 0x3c01}},
    {KD_F64, KD_F16, {0x1p-25 + 0x1p-60}, {.u16 = 1}},
    {KD_F64, KD_BF16, {0x1.01p0 + 0x1p-40}, {.u16 = 0x3f81}},
    {KD_F64, KD_BF16, {-0x1.03p0 + 0x1p-40}, {.u16 = 0xbf81}},
    {KD_F64, KD_BF16, {0x1.01p0}, {.u16 = 0x3f80}},
    {KD_F64, KD_BF16, {0x1.ffp127 - 0x1p80}, {.u16 = 0x7f7f}},
    {KD_F64, KD_F8E4M3FN, {1.0625 + 0x1p-40}, {.u8 = 0x39}},
    {KD_F64, KD_F8E5M2, {1.375 - 0x1p-40}, {.u8 = 0x3d}},
    {KD_I32, KD_BF16, {.i32 = 0x40400001}, {.u16 = 0x4e81}},
    {KD_I32, KD_BF16, {.i32 = -0x40c00000 + 1}, {.u16 = 0xce81}},
    {KD_I32, KD_BF16, {.i32 = 257}, {.u16 = 0x4380}},
    {KD_U32, KD_BF16, {.u32 = 0x81800000 - 1}, {.u16 = 0x4f01}},
    {KD_I64, KD_BF16, {.i64 = INT64_MIN}, {.u16 = 0xdf00}},
    {KD_I64, KD_BF16, {.i64 = (INT64_C(0x101) << 40) + 1}, {.u16 = 0x5781}},
    {KD_I64, KD_BF16, {.i64 = -(INT64_C(0x103) << 40) + 1}, {.u16 = 0xd781}},
    {KD_U64, KD_BF16, {.u64 = (UINT64_C(0x101) << 55) + 1}, {.u16 = 0x5f01}},
    {KD_U64, KD_BF16, {.u64 = UINT64_MAX}, {.u16 = 0x5f80}},
    {KD_I64,
     KD_F32,
     {.i64 = (INT64_C(0x1000001) << 38) + 1},
     {.u32 = 0x5e800001}},
    {KD_I64,
     KD_F32,
     {.i64 = -(INT64_C(0x1000003) << 38) + 1},
     {.u32 = 0xde800001}},
    {KD_U64,
     KD_F32,
     {.u64 = (UINT64_C(0x1000001) << 39) + 1},
     {.u32 = 0x5f000001}},
    {KD_U64,
     KD_F32,
     {.u64 = (UINT64_C(0x1000003) << 39) - 1},
     {.u32 = 0x5f000001}},
    {KD_I64, KD_F16, {.i64 = 65519}, {.u16 = 0x7bff}},
    {KD_U64, KD_F16, {.u64 = UINT64_MAX}, {.u16 = 0x7c00}},
    {KD_I64, KD_F8E8M0, {.i64 = (INT64_C(1) << 60) + 1}, {.u8 = 188}},
    {KD_U64, KD_F8E8M0, {.u64 = (UINT64_C(1) << 63) + 1}, {.u8 = 191}},
};

static void check_cast(const row *r, bool like) {
  const keel_attr to = KEEL_INT("to", r->to);
  const int64_t one = 1;
  const uint64_t zero = 0;
  call c = {.op = like ? "CastLike" : "Cast",
            .attrs = &to,
            .attr_count = !like,
            .in = {create_tensor(context, r->from, 1, &one, &r->x),
                   like ? create_tensor(context, r->to, 1, &one, &zero) : NULL},
            .in_count = like ? 2 : 1,
            .out_count = 1};
  known want = {r->to, 1, {1}, &r->want};
  call_everywhere(&c, check_known, &want);
  release_all(c.in, c.in_count);
}

TEST_THAT(numbers_are_rounded_once) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int like = 0; like < 2; like++)
      check_cast(&rows[i], like);
}

/* ---- floats to integers -------------------------------------------------------------------- */

#define LEAST64 (UINT64_C(1) << 63)
#define LEAST32 (UINT64_C(1) << 31)

/* What a number becomes as i32, of which narrower integers have the low bits, and as wide ones. */
static const struct {
  double x;
  uint64_t i32, u32, i64, u64;
} wholes[] = {
    {INFINITY, LEAST32, 0, LEAST64, 0},
    {-INFINITY, LEAST32, 0, LEAST64, LEAST64},
    {NAN, LEAST32, 0, LEAST64, LEAST64},
    {-1, UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX},
    {-2.75, UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX - 1, UINT64_MAX - 1},
    {-0.5, 0, 0, 0, 0},
    {100.75, 100, 100, 100, 100},
    {300, 300, 300, 300, 300},
    {-32768, -32768ULL, -32768ULL, -32768ULL, -32768ULL},
    {0x1p31, LEAST32, LEAST32, LEAST32, LEAST32},
    {-0x1p31, -LEAST32, -LEAST32, -LEAST32, -LEAST32},
    {0x1p31 - 128, LEAST32 - 128, LEAST32 - 128, LEAST32 - 128, LEAST32 - 128},
    {0x1.8p31, LEAST32, 0xc0000000, 0xc0000000, 0xc0000000},
    {-0x1.8p31, LEAST32, 0x40000000, -0xc0000000ULL, -0xc0000000ULL},
    {0x1p32, LEAST32, 0, 0x100000000, 0x100000000},
    {0x1p33 + 4096, LEAST32, 4096, 0x200001000, 0x200001000},
    {0x1p62, LEAST32, 0, LEAST64 >> 1, LEAST64 >> 1},
    {0x1p63, LEAST32, 0, LEAST64, LEAST64},
    {-0x1p63, LEAST32, 0, LEAST64, LEAST64},
    {-0x1.8p63, LEAST32, 0, LEAST64, LEAST64},
    {0x1.8p63, LEAST32, 0, LEAST64, 0xc000000000000000},
    {0x1p64, LEAST32, 0, LEAST64, 0},
    {-0x1p64, LEAST32, 0, LEAST64, LEAST64},
    {1e30, LEAST32, 0, LEAST64, 0},
    {-1e30, LEAST32, 0, LEAST64, LEAST64},
};
enum { WHOLES = sizeof wholes / sizeof *wholes };

/* Those of the numbers that the type holds, and what is wanted of them. */
static int64_t choose(kd_dtype from, kd_dtype to, void *x, void *want) {
  size_t wide = kd_dtype_size(from), size = kd_dtype_size(to);
  int64_t count = 0;
  for (int i = 0; i < WHOLES; i++) {
    double back, same = wholes[i].x;
    uint64_t bits;
    char *at = (char *)x + (size_t)count * wide;
    keel_float_encode(from, same, at);
    keel_float_decode(from, at, &back, &bits);
    if (back != same && (back == back || same == same)) continue;
    bits = to == KD_BOOL  ? same != 0
           : to == KD_U32 ? wholes[i].u32
           : to == KD_I64 ? wholes[i].i64
           : to == KD_U64 ? wholes[i].u64
                          : wholes[i].i32;
    memcpy((char *)want + (size_t)count++ * size, &bits, size);
  }
  return count;
}

TEST_THAT(floats_become_integers_by_one_rule) {
  static const kd_dtype floats[] = {KD_F32, KD_F64, KD_F16, KD_BF16};
  static const kd_dtype integers[] = {KD_I8,  KD_U8,  KD_I16, KD_U16, KD_I32,
                                      KD_U32, KD_I64, KD_U64, KD_BOOL};
  uint64_t x[WHOLES], made[WHOLES], zero = 0;
  for (int f = 0; f < 4; f++)
    for (int t = 0; t < 9; t++)
      for (int like = 0; like < 2; like++) {
        int64_t count = choose(floats[f], integers[t], x, made);
        const keel_attr to = KEEL_INT("to", integers[t]);
        call c = {
            .op = like ? "CastLike" : "Cast",
            .attrs = &to,
            .attr_count = !like,
            .in = {create_tensor(context, floats[f], 1, &count, x),
                   like ? create_tensor(context, integers[t], DIMS(1), &zero)
                        : NULL},
            .in_count = like ? 2 : 1,
            .out_count = 1};
        known want = {integers[t], 1, {count}, made};
        assert_true(count >= 9);
        call_everywhere(&c, check_known, &want);
        release_all(c.in, c.in_count);
      }
}

TEST_THAT(small_elements_become_integers_by_one_rule) {
  static const struct {
    kd_dtype from, to;
    uint8_t x;
    number want;
  } all[] = {
      {KD_F8E5M2, KD_I32, 0x7c, {.i32 = INT32_MIN}}, /* infinities */
      {KD_F8E5M2, KD_I32, 0xfc, {.i32 = INT32_MIN}},
      {KD_F8E5M2, KD_I64, 0x7c, {.i64 = INT64_MIN}},
      {KD_F8E5M2, KD_U64, 0x7c, {.u64 = 0}},
      {KD_F8E5M2, KD_I16, 0x7c, {.u16 = 0}},
      {KD_F8E4M3FN, KD_I32, 0x7f, {.i32 = INT32_MIN}}, /* NaN */
      {KD_F8E4M3FN, KD_I64, 0x7f, {.i64 = INT64_MIN}},
      {KD_F8E4M3FN, KD_U8, 0x7e, {.u8 = 448 & 255}},
      {KD_F8E4M3FNUZ, KD_I32, 0x80, {.i32 = INT32_MIN}},
      {KD_F8E5M2FNUZ, KD_U32, 0x80, {.u32 = 0}},
      {KD_F8E8M0, KD_I32, 127 + 31, {.i32 = INT32_MIN}},
      {KD_F8E8M0, KD_I32, 127 + 30, {.i32 = 1 << 30}},
      {KD_F8E8M0, KD_U32, 127 + 31, {.u32 = UINT32_C(1) << 31}},
      {KD_F8E8M0, KD_U64, 127 + 63, {.u64 = UINT64_C(1) << 63}},
      {KD_F8E8M0, KD_U64, 127 + 64, {.u64 = 0}},
      {KD_F8E8M0, KD_I8, 255, {.u8 = 0}},
      {KD_F8E8M0, KD_BOOL, 255, {.u8 = 1}},
  };
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    const row r = {all[i].from, all[i].to, {.u8 = all[i].x}, all[i].want};
    for (int like = 0; like < 2; like++)
      check_cast(&r, like);
  }
}

/* Of four bits and two: the low ones of an i32. */
TEST_THAT(floats_become_small_integers_by_one_rule) {
  static const struct {
    double x;
    uint8_t low; /* four bits */
  } all[] = {{INFINITY, 0}, {-INFINITY, 0}, {NAN, 0},    {-1.5, 15}, {300, 12},
             {-9, 7},       {70001, 1},     {0x1p31, 0}, {-1e30, 0}};
  static const kd_dtype types[] = {KD_I4, KD_U4, KD_I2, KD_U2};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int t = 0; t < 4; t++) {
      row r = {KD_F64, types[t], {all[i].x}, {.u8 = all[i].low}};
      if (t >= 2) r.want.u8 &= 3;
      check_cast(&r, false);
      r.from = KD_F32;
      r.x.u64 = 0;
      keel_float_encode(KD_F32, all[i].x, &r.x);
      check_cast(&r, false);
    }
  const row odd = {KD_F64, KD_U4, {0x1p31 + 5}, {.u8 = 0}};
  check_cast(&odd, false);
}

/* ---- text ----------------------------------------------------------------------------------- */

TEST_THAT(text_is_rounded_once) {
  static const struct {
    const char *text;
    kd_dtype to;
    uint16_t want;
  } texts[] = {
      {"1.00048828125000000000000001", KD_F16, 0x3c01},
      {"1.00048828125", KD_F16, 0x3c00},
      {"-1.00146484374999999999999999", KD_F16, 0xbc01},
      {"65519.99999999999999999999", KD_F16, 0x7bff},
      {"1.00390625000000000000000001", KD_BF16, 0x3f81},
      {"1.0625000000000000000000001", KD_F8E4M3FN, 0x39},
      {"INF", KD_F16, 0x7c00},
      {"-0", KD_BF16, 0x8000},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const keel_attr to = KEEL_INT("to", texts[i].to);
    call c = {.op = "Cast",
              .attrs = &to,
              .attr_count = 1,
              .in_count = 1,
              .out_count = 1};
    known want = {texts[i].to, 1, {1}, &texts[i].want};
    expect_ok(
        keel_strings_create(context, DIMS(1), &texts[i].text, NULL, &c.in[0]));
    call_everywhere(&c, check_known, &want);
    keel_tensor_release(c.in[0]);
  }
}

RUN_TESTS(open_all_devices, close_context)
