/* channels_test.c - what scales or shifts the channels that a convolution or a product makes
 * goes into its weights; what only looks like that stays a step. */
#define WORKERS 0
#include "pass.h"
#include "with_cpu.h"

enum { IN = 4, OUT = 6, SIDE = 5 };

typedef struct follower {
  const char *op;
  bool reversed; /* the constant comes first */
  uint32_t rank;
  int64_t dims[4];
  const float *second; /* its second element, or NULL: as any */
} follower;

typedef struct model {
  const char *maker;
  int64_t group;
  bool biased, read_twice;
  follower followers[4];
  bool folds;
} model;

static keel_value eighths(keel_builder *b, uint32_t rank, const int64_t *dims,
                          int salt, const float *second) {
  float data[OUT * IN * 9 + 1];
  int64_t count = elements_of(rank, dims);
  for (int64_t i = 0; i < count; i++)
    data[i] = (float)((i * 7 + salt) % 11 + 1) / 4 - 1.375f;
  if (second) data[1] = *second;
  return add_constant(b, KD_F32, rank, dims, data);
}

/* What makes channels: of rows for a product, of an image otherwise. */
static keel_value make_channels(keel_builder *b, const model *m) {
  const int64_t image[] = {2, IN, SIDE, SIDE}, rows[] = {2, IN}, n = OUT;
  const int64_t conv[] = {OUT, IN / m->group, 3, 3}, pads[] = {1, 1, 1, 1};
  const int64_t back[] = {IN, OUT / m->group, 3, 3}, product[] = {IN, OUT};
  const keel_attr attrs[] = {KEEL_INT("group", m->group),
                             KEEL_INTS("pads", 4, pads)};
  bool gemm = !strcmp(m->maker, "Gemm") || !strcmp(m->maker, "MatMul");
  bool reversed = !strcmp(m->maker, "ConvTranspose");
  const keel_value in[] = {
      keel_builder_input(b, "x", KD_F32, gemm ? 2 : 4, gemm ? rows : image),
      eighths(b, gemm ? 2 : 4,
              gemm       ? product
              : reversed ? back
                         : conv,
              1, NULL),
      m->biased ? eighths(b, 1, &n, 2, NULL) : KEEL_ABSENT};
  bool added = m->biased && !strcmp(m->maker, "MatMul");
  keel_value y = keel_builder_op(b, m->maker, attrs, gemm ? 0 : 2, in,
                                 m->biased && !added ? 3 : 2);
  return added ? op(b, "Add", in[2], y) : y;
}

static keel_value norm(keel_builder *b, keel_value x) {
  const int64_t n = OUT;
  keel_value spread = eighths(b, 1, &n, 6, NULL);
  spread = op(b, "Exp", spread, KEEL_ABSENT);
  const keel_value in[] = {x, eighths(b, 1, &n, 3, NULL),
                           eighths(b, 1, &n, 4, NULL),
                           eighths(b, 1, &n, 5, NULL), spread};
  return keel_builder_op(b, "BatchNormalization", NULL, 0, in, 5);
}

static keel_program *program_of(const model *m) {
  keel_builder *b = create_builder(context, "channels");
  keel_value y = make_channels(b, m);
  if (m->read_twice) keel_builder_output(b, "z", y);
  for (int i = 0; i < 4 && m->followers[i].op; i++) {
    const follower *f = &m->followers[i];
    keel_value c = eighths(b, f->rank, f->dims, 3 + i, f->second);
    y = strcmp(f->op, "BatchNormalization") != 0
            ? op(b, f->op, f->reversed ? c : y, f->reversed ? y : c)
            : norm(b, y);
  }
  keel_builder_output(b, "y", y);
  return finish_program(b);
}

/* Steps that are no maker. */
static uint32_t others_of(keel_plan *plan) {
  keel_profile_line line;
  uint32_t others = 0;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++)
    others += !strstr(line.op, "Conv") && !strstr(line.op, "Gemm") &&
              !strstr(line.op, "MatMul") && strcmp(line.op, "Reorder") != 0;
  return others;
}

#define WITH(second, op, reversed, rank, ...) \
  { op, reversed, rank, {__VA_ARGS__}, second }
#define BY(op, reversed, rank, ...) WITH(NULL, op, reversed, rank, __VA_ARGS__)

static const float zero = 0, tiny = 1e-39f, huge = INFINITY;

static const model models[] = {
    /* as frozen normalisations are written */
    {"Conv",
     1,
     false,
     false,
     {BY("Mul", false, 4, 1, OUT, 1, 1), BY("Add", false, 4, 1, OUT, 1, 1)},
     true},
    {"Conv",
     2,
     true,
     false,
     {BY("Sub", false, 3, OUT, 1, 1), BY("Div", false, 3, OUT, 1, 1)},
     true},
    {"Conv",
     1,
     true,
     false,
     {BY("Sub", true, 3, OUT, 1, 1), BY("Mul", true, 0, 0),
      BY("Add", true, 2, 1, 1)},
     true},
    {"ConvTranspose",
     1,
     true,
     false,
     {BY("Mul", false, 3, OUT, 1, 1), BY("Add", false, 4, 1, OUT, 1, 1)},
     true},
    {"Gemm",
     1,
     true,
     false,
     {BY("Mul", false, 1, OUT), BY("Sub", false, 2, 1, OUT)},
     true},
    {"Conv", 1, true, false, {BY("BatchNormalization", false, 0, 0)}, true},
    {"Gemm", 1, false, false, {BY("BatchNormalization", false, 0, 0)}, true},
    {"MatMul", 1, false, false, {BY("BatchNormalization", false, 0, 0)}, true},
    {"MatMul", 1, true, false, {BY("BatchNormalization", false, 0, 0)}, true},
    {"MatMul", 1, true, true, {BY("BatchNormalization", false, 0, 0)}, false},
    /* by columns, for each element, more dimensions, another divided, or read again */
    {"Conv", 1, true, false, {BY("Mul", false, 1, SIDE)}, false},
    {"Conv", 1, true, false, {BY("Mul", false, 3, OUT, SIDE, SIDE)}, false},
    {"Conv", 1, true, false, {BY("Add", false, 4, 2, OUT, 1, 1)}, false},
    {"Conv", 1, true, false, {BY("Div", true, 3, OUT, 1, 1)}, false},
    {"Conv", 1, true, true, {BY("Mul", false, 3, OUT, 1, 1)}, false},
    {"ConvTranspose", 2, true, false, {BY("Mul", false, 3, OUT, 1, 1)}, false},
    {"Gemm", 1, true, false, {BY("Mul", false, 2, 2, 1)}, false},
    {"Gemm", 1, true, false, {BY("Mul", false, 3, 1, 1, OUT)}, false},
    /* scaled weights would not be numbers */
    {"Conv", 1, true, false, {WITH(&zero, "Div", false, 3, OUT, 1, 1)}, false},
    {"Conv", 1, true, false, {WITH(&tiny, "Div", false, 3, OUT, 1, 1)}, false},
    {"Conv", 1, true, false, {WITH(&huge, "Mul", false, 3, OUT, 1, 1)}, false},
    {"Gemm", 1, true, false, {WITH(&huge, "Add", false, 1, OUT)}, false},
};

TEST_THAT(weights_take_what_follows_by_channels) {
  const int64_t image[] = {2, IN, SIDE, SIDE}, rows[] = {2, IN};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    const model *m = &models[i];
    bool flat = !strstr(m->maker, "Conv");
    trial t = TRIAL(1e-3, .pass = {"fuse"},
                    .in = {numbers(flat ? 2 : 4, flat ? rows : image, 0)},
                    .out_count = m->read_twice ? 2 : 1);
    keel_plan *plan = compare_pass("model", i, program_of(m), &t, NULL);
    if (m->folds != (others_of(plan) == 0))
      fail_msg("model %zu: %u steps besides what makes channels", i,
               others_of(plan));
    keel_plan_release(plan);
  }
}

RUN_TESTS(open_cpu, close_context)
