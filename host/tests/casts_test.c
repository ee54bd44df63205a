/* casts_test.c - numbers that become shorter are rounded once, wherever they are cast. */
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

static void numbers_are_rounded_once(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int like = 0; like < 2; like++)
      check_cast(&rows[i], like);
}

static void text_is_rounded_once(void **state) {
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
  const int64_t one = 1;
  (void)state;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const keel_attr to = KEEL_INT("to", texts[i].to);
    call c = {.op = "Cast",
              .attrs = &to,
              .attr_count = 1,
              .in_count = 1,
              .out_count = 1};
    known want = {texts[i].to, 1, {1}, &texts[i].want};
    expect_ok(
        keel_strings_create(context, 1, &one, &texts[i].text, NULL, &c.in[0]));
    call_everywhere(&c, check_known, &want);
    keel_tensor_release(c.in[0]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(numbers_are_rounded_once),
      cmocka_unit_test(text_is_rounded_once),
  };
  return cmocka_run_group_tests(tests, open_all_devices, close_context);
}
