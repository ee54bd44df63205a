/* algebra_test.c - ops that do nothing go, and no bit of the result changes; what would
 * change one stays. */
#include <math.h>

#include "ops/node.h"
#define WORKERS 0
#include "with_cpu.h"

/* ---- programs from text ------------------------------------------------------------ */

/* A number as a constant, "2", of four ("2:4"), or of one of rank 3 ("2:1,1,1"). */
static keel_value number(keel_builder *builder, const char *text,
                         kd_dtype type) {
  static const int64_t shapes[][3] = {{0}, {4}, {1, 1, 1}};
  int shape = strstr(text, ":4") ? 1 : strchr(text, ':') ? 2 : 0;
  float reals[4];
  int64_t integers[4];
  for (int i = 0; i < 4; i++) {
    reals[i] = strtof(text, NULL);
    integers[i] = strtol(text, NULL, 10);
  }
  return add_constant(builder, type,
                      shape == 1   ? 1
                      : shape == 2 ? 3
                                   : 0,
                      shapes[shape],
                      type == KD_I64 ? (void *)integers : (void *)reals);
}

static keel_value integers(keel_builder *builder, const int64_t *list,
                           int64_t count) {
  return add_constant(builder, KD_I64, 1, &count, list);
}

static int64_t read_list(const char *text, int64_t *out) {
  int64_t count = 0;
  char *end = NULL;
  for (const char *at = text; *at; at = *end ? end + 1 : end)
    out[count++] = strtol(at, &end, 10);
  return count;
}

/* By scales; "to" before them: by sizes. */
static keel_value resize(keel_builder *builder, const char *text,
                         keel_value x) {
  bool sizes = !strncmp(text, "to", 2);
  float scales[3] = {1, 1, 1};
  int64_t list[KD_MAX_RANK];
  const keel_attr mode = KEEL_STRING("mode", "linear");
  for (int i = 0; i < 3 && !sizes; i++) {
    char *end = NULL;
    scales[i] = strtof(text, &end);
    text = *end ? end + 1 : end;
  }
  keel_value four[] = {x, KEEL_ABSENT, KEEL_ABSENT, KEEL_ABSENT};
  if (sizes)
    four[3] = integers(builder, list, read_list(text + 2, list));
  else
    four[2] = add_constant(builder, KD_F32, DIMS(3), scales);
  return keel_builder_op(builder, "Resize", &mode, 1, four, sizes ? 4 : 3);
}

/* One op of "Op a b": _ is the value before, x the input; Transpose 0,2,1 and
 * Reshape 4,6 have their lists. */
static keel_value one_op(keel_builder *builder, const char *text, keel_value x,
                         keel_value last, kd_dtype type) {
  char op_name[16] = "", part[2][16] = {"", ""};
  int64_t list[KD_MAX_RANK];
  keel_value in[2];
  sscanf(text, "%15s %15s %15s", op_name, part[0], part[1]);
  if (!strcmp(op_name, "Transpose")) {
    const keel_attr perm = {.name = "perm",
                            .kind = KD_ATTR_INTS,
                            .count = (uint32_t)read_list(part[0], list),
                            .ints = list};
    return keel_builder_op(builder, op_name, &perm, 1, &last, 1);
  }
  if (!strcmp(op_name, "Reshape") || !strcmp(op_name, "Expand")) {
    in[0] = last;
    in[1] = integers(builder, list, read_list(part[0], list));
    return keel_builder_op(builder, op_name, NULL, 0, in, 2);
  }
  if (!strcmp(op_name, "Resize")) return resize(builder, part[0], last);
  const keel_attr axis = KEEL_INT("axis", 0), to = KEEL_INT("to", 1);
  for (int i = 0; i < 2; i++)
    in[i] = *part[i] == '_'   ? last
            : *part[i] == 'x' ? x
                              : number(builder, part[i], type);
  bool concat = !strcmp(op_name, "Concat"), cast = !strcmp(op_name, "Cast");
  return keel_builder_op(builder, op_name, concat ? &axis : &to, concat || cast,
                         in, *part[1] ? 2 : 1);
}

typedef struct row {
  const char *ops[5];
  uint32_t left;   /* nodes that run */
  const char *now; /* the last one that ran is of this op; NULL: none */
  kd_dtype type;   /* KD_NONE: f32 */
} row;

static keel_program *program_of(const row *r) {
  kd_dtype type = r->type ? r->type : KD_F32;
  keel_builder *builder = create_builder(context, "algebra");
  keel_value x = keel_builder_input(builder, "x", type, DIMS(2, 3, 4)), y = x;
  for (const char *const *at = r->ops; *at; at++)
    y = one_op(builder, *at, x, y, type);
  return program_giving(builder, y);
}

/* Runs it, and notes how many ops ran, and the last one's name. */
static void run(keel_program *program, kd_dtype type, const char *skip,
                char *out, uint32_t *out_count, char *out_last) {
  static const float odd[] = {0.0f,   -0.0f, INFINITY, -INFINITY, NAN,
                              1e-40f, 1e30f, -2.5f,    3};
  const int64_t dims[] = {2, 3, 4};
  keel_profile_line line;
  float reals[24];
  int64_t whole[24];
  for (int i = 0; i < 24; i++) {
    reals[i] = odd[i % 9] * (float)(i > 8 ? i : 1);
    whole[i] = i * 1000003 - 7;
  }
  keel_tensor *x = create_tensor(
      context, type, 3, dims, type == KD_I64 ? (void *)whole : (void *)reals);
  keel_plan *plan = create_plan(
      program, PLAN_PARAMS(.skip = &skip, .skip_count = skip != NULL));
  keel_plan_profile(plan, KEEL_PROFILE_OPS);
  keel_tensor *y = output_of(plan, &x, 1);
  expect_ok(keel_tensor_read(y, out, keel_tensor_size(y)));
  *out_count = 0;
  *out_last = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    *out_count += (uint32_t)line.calls;
    snprintf(out_last, 16, "%s", line.op);
  }
  RELEASE(plan, x, y);
}

static const row rows[] = {
    {{"Mul _ 1"}, 0, NULL, 0},
    {{"Mul 1 _"}, 0, NULL, 0},
    {{"Mul _ 1:4"}, 0, NULL, 0},
    {{"Div _ 1"}, 0, NULL, 0},
    {{"Div 1 _"}, 1, "Div", 0},
    {{"Sub _ 0"}, 0, NULL, 0},
    {{"Sub _ -0"}, 1, "Sub", 0}, /* -0 - -0 is 0 */
    {{"Add _ 0"}, 1, "Add", 0},  /* -0 + 0 is 0 */
    {{"Pow _ 1"}, 0, NULL, 0},
    {{"Pow _ 2"}, 1, "Mul", 0},
    {{"Pow _ 3"}, 1, "Pow", 0},
    {{"Mul _ 2"}, 1, "Mul", 0},
    {{"Add _ 0", "Mul _ 1", "Sub _ 0"}, 0, NULL, KD_I64},
    {{"Add 0 _"}, 0, NULL, KD_I64},
    {{"Mul _ 1:1,1,1"}, 0, NULL, KD_I64},
    {{"Sum _"}, 0, NULL, 0},
    {{"Concat _"}, 0, NULL, 0},
    {{"Cast _"}, 0, NULL, 0},
    {{"Transpose 0,1,2"}, 0, NULL, 0},
    {{"Transpose 0,2,1", "Transpose 0,2,1"}, 0, NULL, 0},
    {{"Transpose 1,2,0", "Transpose 2,0,1"}, 0, NULL, 0},
    {{"Transpose 1,2,0", "Transpose 1,2,0"}, 1, "Transpose", 0},
    {{"Transpose 1,2,0", "Transpose 0,2,1", "Transpose 2,1,0"},
     1,
     "Transpose",
     0},
    {{"Reshape 2,3,4"}, 0, NULL, 0},
    {{"Reshape 6,4", "Reshape 2,12"}, 1, "Reshape", 0},
    {{"Reshape 6,4", "Reshape 2,3,4"}, 0, NULL, 0},
    {{"Reshape 6,4", "Reshape 0,2,-1"}, 2, "Reshape", 0}, /* it looks at 6 */
    {{"Expand 2,3,4"}, 0, NULL, 0},
    {{"Resize 1,1,1"}, 0, NULL, 0},
    {{"Resize to2,3,4"}, 0, NULL, 0},
    {{"Resize 1,1,1.2"}, 1, "Resize", 0}, /* 4 again, of other places */
    {{"Resize to2,3,5"}, 1, "Resize", 0},
    {{"Expand 1,1,4"}, 0, NULL, 0},
};

TEST_THAT(the_same_to_the_last_bit) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    keel_program *program = program_of(&rows[i]);
    kd_dtype type = rows[i].type ? rows[i].type : KD_F32;
    char want[24 * 8] = "", got[24 * 8] = "", last[16];
    uint32_t count = 0;
    run(program, type, "algebra", want, &count, last);
    run(program, type, NULL, got, &count, last);
    if (memcmp(want, got, sizeof want) != 0)
      fail_msg("row %zu (%s ...): another result", i, rows[i].ops[0]);
    if (count != rows[i].left ||
        strcmp(last, rows[i].now ? rows[i].now : "") != 0)
      fail_msg("row %zu (%s ...): %u ops ran, \"%s\" the last", i,
               rows[i].ops[0], count, last);
    keel_program_release(program);
  }
}

/* x has three elements, or one: then the constant is what makes four of them. */
TEST_THAT(what_makes_the_result_larger_stays) {
  const int64_t one[] = {2, 3, 1};
  keel_builder *builder = create_builder(context, "larger");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 3, one);
  keel_value y = one_op(builder, "Mul _ 1:4", x, x, KD_F32);
  keel_program *program = program_giving(builder, y);
  keel_tensor *in = create_tensor(context, KD_F32, 3, one, NULL);
  keel_plan *plan = create_plan(program, NULL);
  keel_tensor *out = output_of(plan, &in, 1);
  assert_int_equal(keel_tensor_size(out), 24 * sizeof(float));
  RELEASE(in, out, plan, program);
}

RUN_TESTS(open_cpu, close_context)
