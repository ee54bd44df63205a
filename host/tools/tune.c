/* tune.c - `keel tune`: which variant of each kernel a device is fastest with. */
#include <math.h>

#include "common/tuning.h"
#include "sizes.h"

typedef struct arguments {
  common common;
  const char *device;
  operands models;
  word_list dims;
  double seconds;
  bool clear;
} arguments;

/* The results. */
typedef struct tally {
  uint32_t searched, better, left; /* left: kernels without time left */
  double log_ratio;                /* summed */
} tally;

/* ---- the command line ----------------------------------------------------- */

static arguments given = {
    .common = {.command = "tune", .workers = KEEL_NO_WORKERS}, .seconds = 300};

static const option options[] = {
    {"--device", "D",
     "the device, of a plugin with something to search for\n"
     "(`keel devices` lists them)",
     .text = &given.device},
    {"--time", "SECONDS", "begin no trial after so many seconds (300)",
     .number = &given.seconds},
    {"--dim", "NAME=4", "size of the open dimensions of that name (1)",
     .list = &given.dims},
    {"--clear", .help = "forget all that is kept for the device",
     .flag = &given.clear},
    {0}};

static const command syntax = {
    "usage: keel tune --device D [MODEL]... [OPTION]...\n"
    "       keel tune --device D --clear\n\n"
    "Compiles the products and convolutions of models, or of a built-in list,\n"
    "in each variant that device D has (kernels, sizes of tiles), times them\n"
    "on the device, and keeps the fastest. All programs of this user use it\n"
    "from then on, as long as device and driver are the same. Known results\n"
    "are reused. Nothing else should run on the device.\n\n",
    options, &given.common, &given.models, false};

static int tune_parse(int argc, char **argv) {
  int result = options_read(&syntax, argc, argv);
  if (result >= 0) return result;
  if (!given.device)
    return usage_error("tune", "name the device: --device opencl:0");
  if (given.clear && given.models.count)
    return usage_error("tune", "--clear takes no model");
  return -1;
}

/* ---- the report ------------------------------------------------------------- */

static void hear(void *context, const tune_news *news) {
  tally *sum = context;
  if (!news->ended) {
    progress("%s %s: %u of %u", shown(news->op), shown(news->shapes),
             news->tried, news->all);
    return;
  }
  bool better = strcmp(news->before, news->after) != 0;
  double ratio = news->after_time / news->before_time;
  sum->searched++;
  sum->better += better;
  sum->log_ratio += log(ratio);
  progress_end();
  printf("%-20s %-34s %-18s %10.1f us", shown(news->op), shown(news->shapes),
         shown(news->before), news->before_time * 1e6);
  if (better)
    printf("  %-18s %10.1f us  %.2f\n", shown(news->after),
           news->after_time * 1e6, ratio);
  else
    printf("  stays, of %u\n", news->all);
  fflush(stdout);
}

/* ---- models ------------------------------------------------------------------ */

/* Whether each --dim is a name and a size. */
static bool check_dims(const arguments *all) {
  for (uint32_t i = 0; i < all->dims.count; i++) {
    const char *size = strchr(all->dims.words[i], '=');
    char *end = NULL;
    if (size && size != all->dims.words[i] && size[1] >= '0' &&
        size[1] <= '9' && strtoll(size + 1, &end, 10) < INT32_MAX && !*end)
      continue;
    usage_error("tune", "--dim %s does not have the form NAME=SIZE",
                all->dims.words[i]);
    return false;
  }
  return true;
}

static keel_status zeros(keel_context *context, kd_dtype dtype, uint32_t rank,
                         const int64_t *dims, keel_tensor **out) {
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    if (__builtin_mul_overflow(count, dims[i], &count)) return KD_OUT_OF_MEMORY;
  void *data = calloc((size_t)count + 1, keel_dtype_size(dtype));
  if (!data) return KD_OUT_OF_MEMORY;
  keel_status status =
      keel_tensor_create(context, dtype, rank, dims, data, out);
  free(data);
  return status;
}

/* Zeros for an input, whose open dimensions are as they were given, or 1. */
static keel_status make_input(const arguments *all, keel_context *context,
                              const keel_port *port, keel_tensor **out) {
  const given_sizes sizes = {.command = "tune", .dims = &all->dims};
  int64_t dims[16];
  for (uint32_t i = 0; i < port->rank; i++) {
    int64_t said =
        port->dims[i] < 0 ? sizes_dim(&sizes, port, i) : port->dims[i];
    dims[i] = said < 0 ? 1 : said;
  }
  return zeros(context, port->dtype, port->rank, dims, out);
}

/* Regions are made with the plan, kernels in the first run. */
static keel_status run_once(const arguments *all, keel_context *context,
                            keel_plan *plan) {
  uint32_t inputs = keel_plan_input_count(plan), made = 0;
  uint32_t outputs = keel_plan_output_count(plan);
  keel_tensor **in = calloc(inputs + 1, sizeof *in);
  keel_tensor **out = calloc(outputs + 1, sizeof *out);
  keel_status status = in && out ? KD_OK : KD_OUT_OF_MEMORY;
  for (; made < inputs && status == KD_OK; made++) {
    keel_port port;
    keel_plan_input(plan, made, &port);
    status = make_input(all, context, &port, &in[made]);
  }
  if (status == KD_OK) status = keel_plan_run(plan, in, inputs, out, outputs);
  for (uint32_t i = 0; in && i < inputs; i++)
    keel_tensor_release(in[i]);
  for (uint32_t i = 0; out && i < outputs; i++)
    keel_tensor_release(out[i]);
  free(in);
  free(out);
  return status;
}

/* Whether run_once can make all inputs. */
static bool tune_is_known(const keel_plan *plan) {
  for (uint32_t i = 0; i < keel_plan_input_count(plan); i++) {
    keel_port port;
    keel_plan_input(plan, i, &port);
    if (port.flags || !port.dtype || port.rank > 16) return false;
  }
  return true;
}

static keel_status tune_model(const arguments *all, keel_context *context,
                              keel_device *device, const char *path) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params, .device = device};
  progress("planning %s", path);
  keel_status status = keel_program_load(context, path, &program);
  if (status == KD_OK) status = keel_plan_create(program, &params, &plan);
  if (status == KD_OK && tune_is_known(plan)) {
    status = run_once(all, context, plan);
  } else if (status == KD_OK) {
    progress_end();
    printf(
        "%s: an input has no known type; kernels that depend on it are left "
        "out\n",
        path);
  }
  keel_plan_release(plan);
  keel_program_release(program);
  return status;
}

/* ---- without a model ----------------------------------------------------------- */

/* Products, and convolutions by `groups` in steps of `step`; padded by half a window. */
static const struct {
  const char *op;
  uint32_t rank;
  int64_t a[4], b[4];
  int64_t groups, step;
} common_work[] = {
    {"MatMul", 2, {256, 256}, {256, 256}, 1, 1},
    {"MatMul", 2, {512, 512}, {512, 512}, 1, 1},
    {"MatMul", 2, {1024, 1024}, {1024, 1024}, 1, 1},
    {"MatMul", 2, {1, 1024}, {1024, 1024}, 1, 1},
    {"MatMul", 2, {128, 768}, {768, 768}, 1, 1},
    {"MatMul", 2, {128, 768}, {768, 3072}, 1, 1},
    {"MatMul", 2, {128, 3072}, {3072, 768}, 1, 1},
    {"Conv", 4, {1, 3, 224, 224}, {64, 3, 7, 7}, 1, 2},
    {"Conv", 4, {1, 3, 224, 224}, {32, 3, 3, 3}, 1, 2},
    {"Conv", 4, {1, 64, 56, 56}, {64, 64, 3, 3}, 1, 1},
    {"Conv", 4, {1, 64, 56, 56}, {256, 64, 1, 1}, 1, 1},
    {"Conv", 4, {1, 128, 28, 28}, {128, 128, 3, 3}, 1, 1},
    {"Conv", 4, {1, 256, 14, 14}, {256, 256, 3, 3}, 1, 1},
    {"Conv", 4, {1, 512, 7, 7}, {512, 512, 3, 3}, 1, 1},
    {"Conv", 4, {1, 16, 112, 112}, {96, 16, 1, 1}, 1, 1},
    {"Conv", 4, {1, 160, 7, 7}, {960, 160, 1, 1}, 1, 1},
    {"Conv", 4, {1, 96, 112, 112}, {96, 1, 3, 3}, 96, 2},
    {"Conv", 4, {1, 144, 56, 56}, {144, 1, 3, 3}, 144, 1},
    {"Conv", 4, {1, 960, 7, 7}, {960, 1, 5, 5}, 960, 1},
};
#define COMMON_WORK (sizeof common_work / sizeof *common_work)

static keel_status tune_common(keel_context *context, size_t index) {
  const int64_t *b = common_work[index].b;
  int64_t steps[2] = {common_work[index].step, common_work[index].step};
  int64_t pads[4] = {b[2] / 2, b[3] / 2, b[2] / 2, b[3] / 2};
  const keel_attr attrs[] = {KEEL_INT("group", common_work[index].groups),
                             KEEL_INTS("strides", 2, steps),
                             KEEL_INTS("pads", 4, pads)};
  keel_tensor *in[2] = {NULL}, *out = NULL;
  bool is_conv = common_work[index].rank == 4;
  keel_status status = zeros(context, KD_F32, common_work[index].rank,
                             common_work[index].a, &in[0]);
  if (status == KD_OK)
    status = zeros(context, KD_F32, common_work[index].rank, b, &in[1]);
  if (status == KD_OK)
    status = keel_call(context, common_work[index].op, attrs, is_conv ? 3 : 0,
                       in, 2, &out, 1);
  if (status == KD_OK) status = keel_tensor_wait(out);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_tensor_release(out);
  return status;
}

/* ---- the command ------------------------------------------------------------------ */

static keel_status tune_all(const arguments *all, keel_context *context,
                            keel_device *device, tally *sum) {
  keel_status status = KD_OK;
  double until = now() + all->seconds;
  for (uint32_t i = 0; i < all->models.count && status == KD_OK; i++)
    status = tune_model(all, context, device, all->models.words[i]);
  if (all->models.count) return status;
  status = keel_device_push(device);
  if (status != KD_OK) return status;
  for (size_t i = 0; i < COMMON_WORK && status == KD_OK; i++) {
    if (now() > until)
      sum->left++;
    else
      status = tune_common(context, i);
  }
  keel_device_pop();
  return status;
}

static int search(const arguments *all, keel_context *context,
                  keel_device *device, kd_device *handle,
                  const tune_table *table) {
  tally sum = {0};
  const tune_wish wish = {.struct_size = sizeof wish,
                          .seconds = all->seconds,
                          .tell = hear,
                          .context = &sum};
  uint32_t known = table->kept(handle), left = 0;
  double from = now();
  if (table->begin(handle, &wish) != KD_OK) return complain();
  keel_status status = tune_all(all, context, device, &sum);
  table->end(handle, &left);
  sum.left += left;
  int result = status == KD_OK ? 0 : complain();
  progress_end();
  printf("%s: %u kernels searched in %.0f s, %u faster now", all->device,
         sum.searched, now() - from, sum.better);
  if (sum.searched)
    printf(", %.2f of the time in the geometric mean",
           exp(sum.log_ratio / sum.searched));
  printf("; %u were known\n", known);
  if (left)
    printf(
        "no time was left for %u kernels: repeat the command, or give a longer "
        "--time, to go on with them\n",
        left);
  return result;
}

static int clear(const arguments *all, kd_device *handle,
                 const tune_table *table) {
  uint32_t kept = table->kept(handle);
  if (table->clear(handle) != KD_OK) return complain();
  printf("%s: %u results forgotten\n", all->device, kept);
  return 0;
}

static int tune_work(const arguments *all, keel_context *context) {
  keel_device *device = NULL;
  kd_device *handle = NULL;
  if (keel_device_find(context, all->device, &device) != KD_OK)
    return complain();
  const tune_table *table = keel_device_extension(device, TUNE_EXTENSION);
  if (!table) {
    fprintf(stderr,
            "keel tune: %s has nothing to search for: its plugin's kernels come"
            " in one variant, or choose by themselves\n",
            all->device);
    return 1;
  }
  if (keel_device_handle(device, &handle) != KD_OK) return complain();
  return all->clear ? clear(all, handle, table)
                    : search(all, context, device, handle, table);
}

int keel_main_tune(int argc, char **argv) {
  int result = tune_parse(argc, argv);
  if (result >= 0) return result;
  if (!check_dims(&given)) return EXIT_USAGE;
  keel_context *context = common_open(&given.common, 0);
  if (!context) return 1;
  result = tune_work(&given, context);
  keel_close(context);
  return result;
}
