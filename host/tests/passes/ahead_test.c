/* ahead_test.c - what a device's compiler made goes with the program: a process that opens
 * the file compiles nothing, and what does not fit is compiled from the ops. */
#include <kd/kd.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "files.h"
#include "layers/layers.h"
#include "program/image.h"
#include "testing.h"
#include "toy/toy.h"

static char folder[] = "/tmp/keel-ahead-XXXXXX";
static char path[64], second[64];

#define NOWHERE \
  "/dev/null/nowhere" /* no store: what is not in the file is compiled */

SETUP(start) {
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof path, "%s/a", folder);
  snprintf(second, sizeof second, "%s/b", folder);
  setenv("KEEL_LOG", "warning", 1); /* they are counted */
  return setenv("XDG_CACHE_HOME", NOWHERE, 1);
}

SETUP(stop) {
  return remove_all(folder);
}

/* ---- a process of its own --------------------------------------------------------- */

/* What a process found. */
typedef struct found {
  int compiled, loaded, warned;
  uint32_t held, bare; /* of the program that it loaded or made */
  uint64_t size;
  char said[400]; /* the last warning */
} found;

typedef struct process {
  keel_context *context;
  keel_device *device;
  found *found;
} process;

static void note(void *to, uint32_t level, const char *line) {
  found *all = to;
  if (level > KD_LOG_WARNING) return;
  all->warned++;
  snprintf(all->said, sizeof all->said, "%s", line);
}

/* [Neg, Abs] and [Add, Mul], so that there are two regions. */
static void claim_pairs(const kd_host *host, const kd_graph *graph,
                        kd_claim take, void *to) {
  for (uint32_t i = 0; i + 1 < host->graph->node_count(graph); i += 2) {
    const uint32_t nodes[] = {i, i + 1};
    const kd_part part = {
        .struct_size = sizeof part, .nodes = nodes, .node_count = 2};
    take(to, &part);
  }
}

static void open_it(process *me, found *to) {
  const char *const paths[] = {TOY("compiler"), CPU_PLUGIN};
  const char *const options[] = {"cpu.regions=off"};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED, paths, 2, .options = options, .option_count = 1,
            .workers = 1, .log = note, .log_context = to);
  me->found = to;
  if (keel_open(&params, &me->context) != KD_OK ||
      keel_device_find(me->context, "compiler", &me->device) != KD_OK)
    _exit(99);
}

/* Runs `what` in a process of its own, where the compiler judges forms so. */
static found in_a_process(void (*what)(process *me), kd_status judges) {
  found *shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(shared != MAP_FAILED);
  fflush(NULL);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    process me;
    keel_layers_set(NULL); /* what the variable says now */
    open_it(&me, shared);
    toy_state *toy = toy_of(TOY("compiler"));
    toy->claim = claim_pairs;
    toy->judges = judges;
    what(&me);
    shared->compiled = toy->made;
    shared->loaded = toy->loaded;
    int live = toy->live;
    keel_close(me.context);
    exit(live != 0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
  found result = *shared;
  munmap(shared, sizeof *shared);
  return result;
}

static void expect(found got, int compiled, int loaded, int warned) {
  if (got.compiled != compiled || got.loaded != loaded || got.warned != warned)
    fail_msg("%d compiled, %d loaded, %d warnings (%s), not %d, %d, %d",
             got.compiled, got.loaded, got.warned, got.said, compiled, loaded,
             warned);
}

static void expect_said(const found *got, const char *part) {
  if (!strstr(got->said, part))
    fail_msg("\"%s\" does not say \"%s\"", got->said, part);
}

/* ---- what processes do -------------------------------------------------------------- */

/* (|-x| + 3) * 2; size -1: open. */
static keel_program *make_program(keel_context *context, int64_t size) {
  const float threes[] = {3, 3, 3, 3}, twos[] = {2, 2, 2, 2};
  keel_builder *builder = create_builder(context, "ahead");
  keel_value x = keel_builder_input(builder, "x", KD_F32, 1, &size);
  keel_value y =
      op(builder, "Abs", op(builder, "Neg", x, KEEL_ABSENT), KEEL_ABSENT);
  y = op(builder, "Add", y, constant_of(builder, floats(context, 4, threes)));
  y = op(builder, "Mul", y, constant_of(builder, floats(context, 4, twos)));
  return program_giving(builder, y);
}

static void run_times(process *me, keel_program *program, int times) {
  const float data[] = {1, -2, 3, -4}, want[] = {8, 10, 12, 14};
  keel_tensor *x = floats(me->context, 4, data), *y = NULL;
  keel_plan *plan = create_plan(program, NULL);
  for (int i = 0; i < times; i++) {
    expect_ok(keel_plan_run(plan, &x, 1, &y, 1));
    expect_floats(y, want, 4);
    keel_tensor_release(y);
  }
  RELEASE(x, plan);
}

static void ask(process *me, const keel_program *program) {
  keel_program_regions(program, &me->found->held, &me->found->size,
                       &me->found->bare);
}

static keel_program *load(process *me, const char *from) {
  keel_program *program = load_program(me->context, from);
  ask(me, program);
  return program;
}

static void compile_to(process *me, keel_program *program, const char *skip,
                       const char *to, uint32_t flags) {
  keel_program *made = NULL;
  expect_ok(
      keel_program_compile(program,
                           PLAN_PARAMS(.device = me->device, .skip = &skip,
                                       .skip_count = skip != NULL),
                           &made));
  ask(me, made);
  expect_ok(keel_program_save(made, to, flags));
  RELEASE(made, program);
}

static void write_it(process *me) {
  compile_to(me, make_program(me->context, 4), NULL, path, 0);
}

static void write_open(process *me) {
  compile_to(me, make_program(me->context, -1), NULL, path, 0);
}

static void write_as_text(process *me) {
  compile_to(me, make_program(me->context, 4), NULL, path, KEEL_SAVE_TEXT);
}

static void write_without_regions(process *me) {
  compile_to(me, make_program(me->context, 4), "regions", path, 0);
}

static void write_again(process *me) {
  keel_program *program = load(me, path);
  expect_ok(keel_program_save(program, second, 0));
  keel_program_release(program);
}

static void compile_again(process *me) {
  compile_to(me, load(me, path), NULL, second, 0);
}

static void run_it(process *me) {
  keel_program *program = load(me, path);
  run_times(me, program, 1);
  keel_program_release(program);
}

static void run_second(process *me) {
  keel_program *program = load(me, second);
  run_times(me, program, 1);
  keel_program_release(program);
}

static void run_often(process *me) {
  keel_program *program = load(me, path);
  run_times(me, program, 4);
  keel_program_release(program);
}

static void run_on_another_device(process *me) {
  keel_program *program = load(me, path);
  keel_device *cpu = find_device(me->context, "cpu");
  keel_device_push(cpu);
  run_times(me, program, 1);
  keel_device_pop();
  keel_program_release(program);
}

static void run_compiled_here(process *me) {
  keel_program *program = make_program(me->context, 4), *made = NULL;
  expect_ok(
      keel_program_compile(program, PLAN_PARAMS(.device = me->device), &made));
  keel_program_release(program);
  run_times(me, made, 1);
  keel_program_release(made);
}

/* ---- tests: forms that fit ------------------------------------------------------------ */

TEST_THAT(the_file_holds_what_was_compiled) {
  found wrote = in_a_process(write_it, KD_OK);
  expect(wrote, 2, 0, 0);
  assert_int_equal(wrote.held, 2);
  assert_int_equal(wrote.bare, 0);
  assert_true(wrote.size > 1000);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 0, 2, 0);
  assert_int_equal(ran.held, 2);
  assert_int_equal(ran.size, wrote.size);
}

TEST_THAT(the_process_that_compiled_does_not_again) {
  expect(in_a_process(run_compiled_here, KD_OK), 2, 2, 0);
}

TEST_THAT(a_file_that_is_written_again_holds_them_too) {
  in_a_process(write_it, KD_OK);
  expect(in_a_process(write_again, KD_OK), 0, 0, 0);
  expect(in_a_process(run_second, KD_OK), 0, 2, 0);
  found again = in_a_process(compile_again, KD_OK);
  expect(again, 0, 2, 0); /* it need not compile either */
  assert_int_equal(again.held, 2);
  expect(in_a_process(run_second, KD_OK), 0, 2, 0);
}

TEST_THAT(what_the_store_has_goes_into_the_file) {
  setenv("XDG_CACHE_HOME", folder, 1);
  expect(in_a_process(write_it, KD_OK), 2, 0, 0);
  expect(in_a_process(write_it, KD_OK), 0, 2, 0);
  setenv("XDG_CACHE_HOME", NOWHERE, 1);
  expect(in_a_process(run_it, KD_OK), 0, 2, 0);
}

/* Plans for types that come again are of other parts, and say nothing of it. */
TEST_THAT(dimensions_may_be_open) {
  found wrote = in_a_process(write_open, KD_OK);
  assert_int_equal(wrote.held, wrote.compiled);
  assert_true(wrote.held > 0);
  expect(in_a_process(run_it, KD_OK), 0, wrote.compiled, 0);
  found ran = in_a_process(run_often, KD_OK);
  assert_int_equal(ran.warned, 0);
  assert_true(ran.loaded >= wrote.compiled);
}

TEST_THAT(text_and_skipping_leave_them_out) {
  in_a_process(write_as_text, KD_OK);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 2, 0, 0);
  assert_int_equal(ran.held, 0);
  expect(in_a_process(write_without_regions, KD_OK), 0, 0, 0);
  expect(in_a_process(run_it, KD_OK), 2, 0, 0);
}

TEST_THAT(another_plugins_device_does_not_mind) {
  in_a_process(write_it, KD_OK);
  expect(in_a_process(run_on_another_device, KD_OK), 0, 0, 0);
}

/* The CPU's compiler gives no form: there is nothing to do ahead, and that is told. */
TEST_THAT(a_plugin_may_give_none) {
  const char *plugin = CPU_PLUGIN;
  const keel_context_params params = OPENS(KEEL_ONLY_NAMED, &plugin, 1);
  keel_program *made = NULL;
  uint32_t held = 7, bare = 0;
  uint64_t size = 7;
  keel_context *context = open_params(&params);
  keel_program *program = make_program(context, 4);
  expect_ok(keel_program_compile(program, NULL, &made));
  keel_program_regions(made, &held, &size, &bare);
  assert_int_equal(held, 0);
  assert_int_equal(size, 0);
  assert_int_equal(bare, 1);
  keel_program_regions(made, NULL, NULL, NULL);
  RELEASE(made, program, context);
}

/* One region's form is not given: it alone is compiled in each process. */
TEST_THAT(a_region_may_have_none) {
  setenv("KEEL_LAYERS", "fault:region.serialize=1:UNIMPLEMENTED", 1);
  found wrote = in_a_process(write_it, KD_OK);
  unsetenv("KEEL_LAYERS");
  assert_int_equal(wrote.compiled, 2);
  assert_int_equal(wrote.held, 1);
  assert_int_equal(wrote.bare, 1);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 1, 1, 1);
  expect_said(&ran, "none for this region");
}

/* A form that can't be loaded for now is no failure either. */
TEST_THAT(a_load_that_fails_is_made_up_for) {
  in_a_process(write_it, KD_OK);
  setenv("KEEL_LAYERS", "fault:region.load=1:OUT_OF_MEMORY", 1);
  found ran = in_a_process(run_it, KD_OK);
  unsetenv("KEEL_LAYERS");
  expect(ran, 1, 1, 1);
}

/* ---- tests: forms that do not ----------------------------------------------------------- */

TEST_THAT(what_the_device_refuses_is_compiled) {
  in_a_process(write_it, KD_OK);
  found ran = in_a_process(run_it, KD_INCOMPATIBLE);
  expect(ran, 2, 0, 1); /* it warns once */
  expect_said(&ran, "compiler: of another driver");
  expect_said(&ran, "compile the model again");
  expect(in_a_process(run_it, KD_OK), 0, 2, 0); /* the file has not changed */
}

TEST_THAT(other_options_want_another_form) {
  in_a_process(write_it, KD_OK);
  setenv("KEEL_COMPILER_FAST", "yes", 1);
  found ran = in_a_process(run_it, KD_OK);
  unsetenv("KEEL_COMPILER_FAST");
  expect(ran, 2, 0, 1);
  expect_said(&ran, "other options");
}

/* ---- files that were changed --------------------------------------------------------- */

typedef struct image {
  char *data;
  size_t size;
} image;

static image read_image(const char *from) {
  image all;
  all.data = read_bytes(from, &all.size);
  return all;
}

static image_head *head_of(const image *all) {
  return (image_head *)(void *)all->data;
}

static image_form *forms_of(const image *all) {
  return (image_form *)(void *)(all->data +
                                head_of(all)->parts[IMAGE_FORMS].offset);
}

/* With a right sum over what it covers. */
static void write_image(const image *all) {
  image_head *head = head_of(all);
  head->check = keel_hash(KEEL_HASH_SEED, all->data + head->head_size,
                          head->data - head->head_size);
  write_bytes(path, all->data, all->size);
}

TEST_THAT(a_newer_plugin_compiles) {
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  char *maker = memmem(all.data, all.size, "compiler/", 9);
  assert_non_null(maker);
  maker[9] ^= 1; /* its version */
  write_image(&all);
  free(all.data);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 2, 0, 1);
  expect_said(&ran, "it is for compiler/");
  expect_said(&ran, "and this is compiler/");
}

/* As after a change of the host's passes: the part has another fingerprint. */
TEST_THAT(a_part_that_is_not_there_is_compiled) {
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  forms_of(&all)[0].graph[0] = 0; /* still in order */
  write_image(&all);
  free(all.data);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 1, 1, 1);
  expect_said(&ran, "none for this region");
}

/* Whatever byte of the forms changes, one of them is compiled. */
TEST_THAT(damaged_forms_are_compiled) {
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  assert_int_equal(head_of(&all)->parts[IMAGE_FORMS].count, 2);
  for (int i = 0; i < 2; i++) {
    const image_form *form = &forms_of(&all)[i];
    char *bytes = all.data + head_of(&all)->data + form->at;
    const uint64_t places[] = {0, form->size / 2, form->size - 1};
    for (int k = 0; k < 3; k++) {
      bytes[places[k]] ^= 0x10;
      write_image(&all);
      bytes[places[k]] ^= 0x10;
      found ran = in_a_process(run_it, KD_OK);
      expect(ran, 1, 1, 1);
      expect_said(&ran, "its bytes are damaged");
    }
  }
  free(all.data);
}

/* Damage behind right sums is for the plugin to find. */
TEST_THAT(forged_forms_are_compiled) {
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  image_form *form = forms_of(&all);
  char *bytes = all.data + head_of(&all)->data + form->at;
  bytes[0] ^= 1;
  form->sum = keel_hash(KEEL_HASH_SEED, bytes, form->size);
  write_image(&all);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 1, 1, 1);
  expect_said(&ran, "compiler: of another graph");
  bytes[0] ^= 1;
  form->size = 0;
  form->sum = KEEL_HASH_SEED;
  write_image(&all);
  ran = in_a_process(run_it, KD_OK);
  expect(ran, 1, 1, 1);
  expect_said(&ran, "compiler: 0 bytes");
  free(all.data);
}

/* Loads what lies at `path`; says why not by keel_message(). */
static keel_status try(void) {
  keel_context *context = open_with(TOY("compiler"), CPU_PLUGIN, 1);
  keel_program *program = NULL;
  keel_status status = keel_program_load(context, path, &program);
  RELEASE(program, context);
  return status;
}

TEST_THAT(damaged_records_are_refused) {
  static const struct {
    size_t field;
    const char *says;
  } fields[] = {
      {offsetof(image_form, at), "a compiled form reaches beyond the file"},
      {offsetof(image_form, size), "a compiled form reaches beyond the file"},
      {offsetof(image_form, maker), "a name is missing"},
  };
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  image_form *forms = forms_of(&all), kept[2];
  memcpy(kept, forms, sizeof kept);
  for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
    memset((char *)forms + fields[i].field, 0x7f, 4);
    write_image(&all);
    memcpy(forms, kept, sizeof kept);
    expect_fails(try(), KD_DATA_LOSS, fields[i].says);
  }
  forms[0].at += 8; /* where no alignment is */
  write_image(&all);
  assert_int_equal(try(), KD_DATA_LOSS);
  forms[0] = kept[1];
  forms[1] = kept[0];
  write_image(&all);
  expect_fails(try(), KD_DATA_LOSS, "its compiled forms are not in order");
  forms[1] = kept[1]; /* twice the same */
  write_image(&all);
  assert_int_equal(try(), KD_DATA_LOSS);
  memcpy(forms, kept, sizeof kept);
  write_image(&all);
  expect_ok(try());
  free(all.data);
}

/* A reader of before version 3 does not see the stream, nor needs it. */
TEST_THAT(older_readers_do_without) {
  in_a_process(write_it, KD_OK);
  image all = read_image(path);
  image_head *head = head_of(&all);
  assert_int_equal(head->version, 3);
  assert_int_equal(head->needs, 1);
  head->parts[IMAGE_FORMS].count = 0; /* what it makes of it */
  write_image(&all);
  free(all.data);
  found ran = in_a_process(run_it, KD_OK);
  expect(ran, 2, 0, 0);
}

/* Written by the first Keel that had them. Its forms may be of another fingerprint by
 * now, and of another compiler: then they are compiled. */
static void run_version_3(process *me) {
  keel_program *program = load(me, TEST_DATA "/v3.keel");
  run_times(me, program, 1);
  keel_program_release(program);
}

TEST_THAT(version_3_is_read_for_ever) {
  found ran = in_a_process(run_version_3, KD_OK);
  assert_int_equal(ran.held, 2);
  assert_int_equal(ran.compiled + ran.loaded, 2);
}

RUN_TESTS(start, stop)
