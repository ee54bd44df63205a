/* hostile_test.c - files that crashed Keel, overran its memory or kept it busy for good:
 * each gives the error or the result that it should now, in a plan and eagerly. */
#include <keel/debug.h>

#include <sys/stat.h>
#include <unistd.h>

#include "files.h"
#include "hostile.h"

#define FOLDER TEST_DATA "/hostile/"
#define LIMIT  UINT64_C(5000000000) /* never reached: who does hangs */

static const struct {
  const char *file, *says; /* part of the error; NULL: it runs */
} cases[] = {
    {"function_const", "value \"a\" is made twice"},
    {"function_input", "value \"a\" is made twice"},
    {"function_multi", "value \"b\" is made twice"},
    {"function_size", "value \"a\" is made twice"},
    {"function_size2", "value \"b\" is made twice"},
    {"function_size3", "value \"b\" is made twice"},
    {"function_twice", "value \"b\" is made twice"},
    {"laughs", "nodes with its functions written out, too many for a file"},
    {"max_pool_of_nothing", NULL},
    {"max_pool_vast_window", NULL},
    {"missing_weight", "Conv \"late\"(X -, W -, B -): W is missing"},
    {"old_absent", "node \"\" (Add-6): input 0 is missing"},
    {"old_axis", "axis -1000 is not in a tensor of rank 3"},
    {"old_axis_2m", "axis -2000000 is not in a tensor of rank 3"},
    {"old_axis_min", "axis -9223372036854775808 is not in a tensor of rank 3"},
    {"old_prelu", "node \"\" (PRelu-6): input 0 is missing"},
    {"old_softmax_tensor", NULL},
    {"old_upsample", NULL},
    {"range_step", "has no sensible length"},
    {"roi_align_samples", NULL},
    {"slice_of_constants", NULL},
    {"slice_of_nothing", NULL},
    {"slice_twice", "axis 0 is named twice; name each axis once"},
    {"slice_twice_negative", "axis 0 is named twice; name each axis once"},
    {"slice_twice_1", "axis 0 is named twice; name each axis once"},
    {"slice_twice_2", NULL},
    {"split_48", NULL},
    {"split_48_constant", NULL},
    {"split_48_index", NULL},
    {"split_many", NULL},
    {"split_most", NULL},
};

/* Most of the files are models in ONNX. */
static void need_onnx(void) {
#ifndef KEEL_WITH_ONNX
  skip();
#endif
}

static keel_status load_and_run(keel_context *context, const char *file,
                                uint32_t flags) {
  char model[512], values[512];
  keel_program *program = NULL;
  hostile_inputs inputs;
  snprintf(model, sizeof model, FOLDER "%s.onnx", file);
  snprintf(values, sizeof values, FOLDER "%s.in", file);
  keel_status status = keel_program_load(context, model, &program);
  if (status != KD_OK) return status;
  bool given = hostile_inputs_read(context, values, &inputs);
  if (inputs.count != keel_program_input_count(program)) {
    hostile_inputs_drop(&inputs); /* they are for what was a mutant's seed */
    given = false;
  }
  if (!given) assert_true(hostile_inputs_make(context, program, &inputs));
  status = hostile_run(program, &inputs, flags, 4, LIMIT);
  hostile_inputs_drop(&inputs);
  keel_program_release(program);
  return status;
}

static void check_all(uint32_t flags) {
  keel_context *context = open_with(CPU_PLUGIN, NULL, 0);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    keel_status status = load_and_run(context, cases[i].file, flags);
    if ((status == KD_OK) != !cases[i].says)
      fail_msg("%s: %s", cases[i].file,
               status == KD_OK ? "no error" : keel_message());
    if (cases[i].says) expect_message(cases[i].says);
  }
  keel_close(context);
}

TEST_THAT(each_gives_its_error_or_result_in_a_plan) {
  need_onnx();
  check_all(0);
}

TEST_THAT(each_gives_its_error_or_result_eagerly) {
  need_onnx();
  check_all(KEEL_PLAN_EAGER);
}

/* A model in a folder of its own, with what its external data leads to. */
typedef struct location {
  char folder[32], model[96];
} location;

static void copy_to(const location *location, const char *name) {
  char from[512], buffer[4096];
  snprintf(from, sizeof from, FOLDER "%s.onnx", name);
  FILE *in = fopen(from, "rb"), *out = fopen(location->model, "wb");
  assert_non_null(in);
  assert_non_null(out);
  size_t size = fread(buffer, 1, sizeof buffer, in);
  assert_int_equal(fwrite(buffer, 1, size, out), size);
  fclose(in);
  fclose(out);
}

static location location_of(const char *name) {
  need_onnx();
  location location = {.folder = "/tmp/keel-hostile-XXXXXX"};
  assert_non_null(mkdtemp(location.folder));
  snprintf(location.model, sizeof location.model, "%s/model.onnx",
           location.folder);
  copy_to(&location, name);
  return location;
}

static const char *in_folder(const location *location, const char *name) {
  static char path[96];
  snprintf(path, sizeof path, "%s/%s", location->folder, name);
  return path;
}

static void remove_place(const location *location, const char *name) {
  unlink(location->model);
  unlink(in_folder(location, name));
  rmdir(location->folder);
}

static void refuse_load(const char *path, keel_status wanted,
                        const char *says) {
  need_onnx();
  keel_context *context = open_with(CPU_PLUGIN, NULL, KEEL_NO_WORKERS);
  keel_program *program = NULL;
  expect_fails(keel_program_load(context, path, &program), wanted, says);
  keel_close(context);
}

TEST_THAT(external_data_never_leaves_the_folder_by_a_link) {
  location location = location_of("ext_link");
  assert_int_equal(symlink("/etc/passwd", in_folder(&location, "link.bin")), 0);
  refuse_load(location.model, KD_PERMISSION_DENIED, "leads out of the folder");
  remove_place(&location, "link.bin");
}

TEST_THAT(external_data_never_leaves_by_a_link_to_a_folder) {
  location location = location_of("ext_dirlink");
  assert_int_equal(symlink("/etc", in_folder(&location, "dirlink")), 0);
  refuse_load(location.model, KD_PERMISSION_DENIED, "leads out of the folder");
  remove_place(&location, "dirlink");
}

TEST_THAT(a_pipe_is_no_external_data) {
  location location = location_of("ext_fifo");
  assert_int_equal(mkfifo(in_folder(&location, "fifo"), 0600), 0);
  refuse_load(location.model, KD_INVALID_ARGUMENT, "is not a regular file");
  refuse_load(in_folder(&location, "fifo"), KD_INVALID_ARGUMENT,
              "is not a regular file");
  remove_place(&location, "fifo");
}

/* A convolution whose padding makes 0.5 GB of a kilobyte: right, and beyond the limit. */
TEST_THAT(memory_has_a_limit) {
  const char *plugin = CPU_PLUGIN;
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, &plugin, 1, .memory_limit = UINT64_C(64) << 20);
  keel_context *context = NULL;
  hostile_inputs inputs;
  assert_int_equal(keel_open(&params, &context), KD_OK);
  keel_program *program = load_program(context, FOLDER "conv_vast_pads.keel");
  assert_true(hostile_inputs_make(context, program, &inputs));
  assert_int_equal(hostile_run(program, &inputs, 0, 1, LIMIT),
                   KD_OUT_OF_MEMORY);
  hostile_inputs_drop(&inputs);
  RELEASE(program, context);
}

TEST_THAT(an_empty_file_is_no_program) {
  char path[] = "/tmp/keel-empty-XXXXXX";
  make_file(path);
  refuse_load(path, KD_DATA_LOSS, "has no graph");
  unlink(path);
}

/* As caches of models have it: model and data are links into a folder of blobs. */
TEST_THAT(external_data_may_lie_beside_what_the_model_is_a_link_to) {
  location blobs = location_of("ext_link"), links = location_of("ext_link");
  char data[96];
  (void)state;
  snprintf(data, sizeof data, "%s", in_folder(&blobs, "blob"));
  write_bytes(data, (char[4096]){0}, 4096);
  unlink(links.model);
  assert_int_equal(symlink(blobs.model, links.model), 0);
  assert_int_equal(symlink(data, in_folder(&links, "link.bin")), 0);
  keel_context *context = open_with(CPU_PLUGIN, NULL, KEEL_NO_WORKERS);
  keel_program *program = load_program(context, links.model);
  RELEASE(program, context);
  remove_place(&links, "link.bin");
  remove_place(&blobs, "blob");
}

RUN_TESTS(NULL, NULL)
