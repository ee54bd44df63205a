/* loader_test.c - bad plugins are refused with a reason, and never stop the
 * good ones. */
#include <sys/stat.h>
#include <unistd.h>

#include "device/device.h"
#include "files.h"
#include "loader/loader.h"
#include "testing.h"
#include "toy/toy.h"

static char folder[64];

SETUP(make_folder) {
  strcpy(folder, "/tmp/keel-loader-XXXXXX");
  return mkdtemp(folder) ? 0 : 1;
}

SETUP(remove_folder) {
  return remove_all(folder);
}

static const char *in_folder(const char *name) {
  static char path[2][256];
  static int next;
  next = !next;
  snprintf(path[next], sizeof path[next], "%s/%s", folder, name);
  return path[next];
}

static void copy_file(const char *from, const char *to, long most) {
  static char block[1 << 16];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  assert_non_null(in);
  assert_non_null(out);
  for (size_t left = most < 0 ? SIZE_MAX : (size_t)most, got; left;
       left -= got) {
    got = fread(block, 1, left < sizeof block ? left : sizeof block, in);
    if (!got) break;
    assert_int_equal(fwrite(block, 1, got, out), got);
  }
  fclose(in);
  assert_int_equal(fclose(out), 0);
}

/* The plugin is refused, its reason and hint say so, and the CPU is loaded. */
static void expect_refused(const char *path, keel_status status,
                           const char *reason, const char *hint) {
  keel_context *context = open_with(path, CPU_PLUGIN, KEEL_NO_WORKERS);
  keel_plugin_info info;
  assert_int_equal(keel_plugin_count(context), 2);
  keel_plugin_at(context, 0, &info);
  if (!strstr(info.reason, reason) || !strstr(info.hint, hint))
    fail_msg("\"%s\" and \"%s\" do not say \"%s\" and \"%s\"", info.reason,
             info.hint, reason, hint);
  assert_int_equal(info.status, status);
  keel_plugin_at(context, 1, &info);
  expect_ok(info.status);
  assert_int_equal(keel_device_count(context), 1);
  keel_close(context);
}

#define BAD(name) TOY("bad_" name)

#define BAD_IS(which, reason, hint) \
  expect_refused(BAD(which), KD_INCOMPATIBLE, reason, hint)

TEST_THAT(faulty_plugins_are_refused) {
  BAD_IS("OLD", "built for ABI 0.1", "");
  BAD_IS("NEW", "needs a host of ABI 0.99", "");
  BAD_IS("MAJOR", "built for ABI 7.0", "build for this version");
  BAD_IS("NULL_TABLE", "has no licence", "vendor");
  BAD_IS("SHORT", "struct_size 24", "vendor");
  expect_refused(BAD("OPEN"), KD_UNAVAILABLE, "flux driver", "driver");
  expect_refused(BAD("NO_INSTANCE"), KD_INTERNAL, "KD_OK and no instance",
                 "driver");
  BAD_IS("NAME", "Bad Name!", "vendor");
  BAD_IS("NO_SLOT", "slot allocate", "vendor");
  BAD_IS("CAPTURE", "slot begin of kd_capture_table", "vendor");
  BAD_IS("PROFILE", "slot start of kd_profile_table", "vendor");
  BAD_IS("PEER", "slot reachable of kd_peer_table", "vendor");
  BAD_IS("COLLECTIVE", "slot create of kd_collective_table", "vendor");
  BAD_IS("HALF_COLLECTIVE",
         "make_id, join, status and abort of groups must be all set", "vendor");
  BAD_IS("NATIVE", "slot device of kd_native_table is NULL", "vendor");
  BAD_IS("EVENTS", "streams and events", "");
  BAD_IS("STRIDE", "struct_size 7", "");
  BAD_IS("OPTION_NULL", "the name of option 1 is NULL", "vendor");
  BAD_IS("OPTION_NAME", "the name of option 1 is \"Queue-2\"", "vendor");
  BAD_IS("OPTION_TWICE", "lists option queue twice", "vendor");
  BAD_IS("OPTION_SHORT", "4 option definitions of struct_size 40", "vendor");
  BAD_IS("OPTION_NONE", "options is NULL, option_count is 4", "vendor");
  expect_refused(TOY("no_symbol"), KD_INCOMPATIBLE, "kd_entry_0", "KD_ENTRY");
}

/* A driver's error that became a count corrupts nothing, and takes no time. */
TEST_THAT(counts_that_cannot_be_are_refused) {
  BAD_IS("COUNT_ERROR",
         "device_count returned 4294967295 (as a signed number -1), and"
         " a plugin has at most 4096 devices",
         "driver");
  BAD_IS("COUNT", "device_count returned 4097", "driver");
  BAD_IS("KERNEL_COUNT", "4294967295 kernel definitions", "vendor");
  BAD_IS("OP_COUNT", "4294967295", "vendor");
  BAD_IS("OPTION_COUNT", "4294967295 option definitions", "vendor");
  /* the device alone is left out */
  expect_refused(BAD("SPACES"), KD_OK, "bad:0 reports 4294967295", "");
  expect_refused(
      BAD("ALIGNMENT"), KD_OK,
      "memory space 0 of bad:0 has alignment 48, which is not a power"
      " of two",
      "");
  keel_context *context = open_with(BAD("ALIAS_COUNT"), NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(context, 0);
  assert_null(keel_device_kernels(device, "ai.onnx", "Relu"));
  assert_non_null(keel_device_kernels(device, "ai.onnx", "Neg"));
  keel_close(context);
}

/* y = -x on a device, by an op of its own. */
static void negate_on(keel_context *context, keel_device *device) {
  const float data[] = {1, -2, 3, -4}, want[] = {-1, 2, -3, 4};
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_op *made = prepare_op(context, "Neg", NULL, 0, device);
  expect_ok(keel_op_call(made, &x, 1, &y, 1));
  expect_floats(y, want, 4);
  RELEASE(x, y, made);
}

/* Devices that are only listed cost nothing, and those beyond what threads have lists of work
 * without. */
TEST_THAT(any_number_of_devices_and_contexts_works) {
  enum { CONTEXTS = 50 };
  keel_context *all[CONTEXTS];
  for (int i = 0; i < CONTEXTS; i++) {
    all[i] = open_with(TOY("many"), CPU_PLUGIN, KEEL_NO_WORKERS);
    assert_int_equal(keel_device_count(all[i]), 41);
  }
  for (uint32_t i = 0; i < 41; i++)
    for (int round = 0; round < 3; round++)
      negate_on(all[0], keel_device_at(all[0], i));
  for (int i = CONTEXTS - 1; i >= 0; i--)
    negate_on(all[i], keel_device_at(all[i], i % 2 ? 40 : 39));
  for (int i = 0; i < CONTEXTS; i++)
    keel_close(all[i]);
}

/* What a later ABI may say by a bit that must be understood: the object is not used, and
 * whatever else the plugin has is. */
TEST_THAT(bits_of_a_later_abi_are_refused) {
  keel_plugin_info info;
  expect_refused(BAD("PLUGIN_BIT"), KD_UNIMPLEMENTED,
                 "kd_plugin has bit 23 in its flags (0x800000), which must be"
                 " understood, and a host of ABI 0.10 does not know; the plugin"
                 " is built for ABI 0.10",
                 "vendor");
  expect_refused(BAD("DEVICE_BIT"), KD_OK, "bad:0 has bit 23", "newer Keel");
  expect_refused(BAD("SPACE_BIT"), KD_OK, "memory space 0 of bad:0 has bit 23",
                 "newer Keel");
  keel_context *context = open_with(BAD("KERNEL_BIT"), NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(context, 0);
  assert_null(keel_device_kernels(device, "ai.onnx", "Relu"));
  assert_non_null(keel_device_kernels(device, "ai.onnx", "Neg"));
  keel_close(context);
  context = open_with(BAD("HINT_BITS"), NULL, KEEL_NO_WORKERS);
  keel_plugin_at(context, 0, &info);
  assert_string_equal(info.reason, "");
  device = keel_device_at(context, 0);
  assert_non_null(device);
  assert_non_null(keel_device_kernels(device, "ai.onnx", "Relu"));
  keel_close(context);
}

TEST_THAT(aliases_that_no_launch_could_keep_are_refused) {
  static const char *const refused[] = {"Relu", "Abs", "Exp", "Sin"};
  keel_context *context = open_with(BAD("ALIASES"), NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(context, 0);
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    assert_null(keel_device_kernels(device, "ai.onnx", refused[i]));
  assert_non_null(keel_device_kernels(device, "ai.onnx", "Neg"));
  keel_close(context);
}

/* What becomes of a plugin that is given options. */
static keel_status given(const char *path, const char *const *options,
                         uint32_t count, char reason[500]) {
  keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, &path, 1, .options = options,
            .option_count = count);
  keel_plugin_info info;
  keel_context *context = open_params(&params);
  expect_ok(keel_plugin_at(context, 0, &info));
  snprintf(reason, 500, "%s", info.reason);
  if (info.status != KD_OK)
    assert_non_null(strstr(info.hint, "keel plugins --options"));
  keel_close(context);
  return info.status;
}

static void expect_given(const char *path, const char *option,
                         keel_status status, const char *part) {
  char reason[500];
  if (given(path, &option, 1, reason) != status || !strstr(reason, part))
    fail_msg("%s: \"%s\" does not say \"%s\"", option, reason, part);
}

TEST_THAT(options_that_fit_no_list_are_refused) {
  const char *path = BAD("OPTIONS");
  static const char *const good[] = {"queue=-9223372036854775808",
                                     "queue=0",
                                     "share=-0.25",
                                     "share=1e-3",
                                     "share=2E+10",
                                     "mode=fast",
                                     "mode=safe",
                                     "later=what?",
                                     "share=12"};
  for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
    char option[64];
    snprintf(option, sizeof option, "bad.%s", good[i]);
    expect_given(path, option, KD_OK, "");
  }
  static const char *const bad[][2] = {
      {"queu=1",
       "plugin bad has no option \"queu\" (from the application); nearest are"
       " queue, "},
      {"queue=",
       "option queue is \"\" (from the application); it must be a"
       " whole number"},
      {"queue=4k", "whole number"},
      {"queue=9223372036854775808", "whole number"},
      {"queue= 4", "whole number"},
      {"queue=+4", "whole number"},
      {"queue=0x4", "whole number"},
      {"share=0,5", "it must be a number like 0.5"},
      {"share=.5", "number like"},
      {"share=1.", "number like"},
      {"share=1e", "number like"},
      {"share=nan", "number like"},
      {"mode=fas", "it must be one of fast, safe"},
      {"mode=fast|safe", "one of"},
      {"mode=", "one of"},
      {"=1", "no option \"\""},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char option[64];
    snprintf(option, sizeof option, "bad.%s", bad[i][0]);
    expect_given(path, option, KD_INVALID_ARGUMENT, bad[i][1]);
  }
  /* a name that nobody has room for */
  char longest[5000] = "bad.";
  memset(longest + 4, 'q', sizeof longest - 8);
  strcpy(longest + sizeof longest - 4, "=1");
  expect_given(path, longest, KD_INVALID_ARGUMENT, "no option \"qqqq");
  /* others' options, and plugins that don't say what they have: as before */
  expect_given(path, "cpu.queu=1", KD_OK, "");
  expect_given(TOY("plain"), "plain.whatever=1", KD_OK, "");
  expect_given(BAD("OPTIONS_NO"), "cpu.isa=base", KD_OK, "");
  expect_given(BAD("OPTIONS_NO"), "bad.whatever=1", KD_INVALID_ARGUMENT,
               "it has none");
  /* what a later ABI says of an option is not known here */
  expect_given(BAD("OPTION_BIT"), "bad.queue=1", KD_OK, "");
  expect_given(BAD("OPTION_BIT"), "bad.share=1", KD_INVALID_ARGUMENT,
               "no option \"share\"");
}

static char lines[2000]; /* of the log */

static void keep_line(void *context, uint32_t level, const char *line) {
  size_t used = strlen(lines);
  (void)context;
  if (level == KD_LOG_WARNING)
    snprintf(lines + used, sizeof lines - used, "%s\n", line);
}

/* Opens the plugin of a sound list; what was warned of is in `lines`. */
static keel_status in_environment(const char *option) {
  const char *path = BAD("OPTIONS");
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, &path, 1, .options = &option,
            .option_count = option != NULL, .log = keep_line);
  keel_plugin_info info;
  *lines = 0;
  setenv("KEEL_LOG", "warning", 1);
  keel_context *context = open_params(&params);
  setenv("KEEL_LOG", "error", 1);
  keel_plugin_at(context, 0, &info);
  keel_fail_text(KD_OK, info.reason);
  keel_close(context);
  return info.status;
}

/* A variable of a wrong name may be another program's; a wrong value is refused. */
TEST_THAT(variables_are_options_too) {
  setenv("KEEL_BAD_MODE", "fast", 1);
  setenv("KEEL_BAD_QUEUE", "5", 1);
  expect_ok(in_environment(NULL));
  assert_string_equal(lines, "");
  setenv("KEEL_BAD_QUEUE", "many", 1);
  expect_fails(in_environment(NULL), KD_INVALID_ARGUMENT,
               "option queue is \"many\" (from KEEL_BAD_QUEUE)");
  expect_ok(in_environment("bad.queue=3")); /* that counts */
  unsetenv("KEEL_BAD_QUEUE");
  setenv("KEEL_BAD_MOOD", "fast", 1);
  expect_ok(in_environment(NULL));
  assert_non_null(strstr(lines, "no option \"mood\" (from KEEL_BAD_MOOD)"));
  assert_non_null(strstr(lines, "nearest are mode, "));
  unsetenv("KEEL_BAD_MOOD");
  unsetenv("KEEL_BAD_MODE");
}

/* What one of them makes Keel refuse is an error: nothing runs elsewhere in silence. */
TEST_THAT(plugins_that_are_named_must_be_there) {
  const struct {
    const char *path, *option;
    keel_status status;
    const char *part;
  } bad[] = {
      {"/nowhere/at/all.so", NULL, KD_NOT_FOUND,
       "a plugin that was named is refused: /nowhere/at/all.so: no such file"},
      {"/etc/keel-none", NULL, KD_NOT_FOUND, "/etc/keel-none: no such file"},
      {folder, NULL, KD_NOT_FOUND, "the folder has no plugin"},
      {CPU_PLUGIN, "bat.mode=fast", KD_NOT_FOUND,
       "option \"bat.mode=fast\": there is no plugin \"bat\""},
      {CPU_PLUGIN, "cpu.isa=avx9", KD_INVALID_ARGUMENT,
       "option isa is \"avx9\" (from the application)"},
      {BAD("OPTIONS"), "bad.queue=many", KD_INVALID_ARGUMENT,
       "option queue is \"many\" (from the application)"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    keel_context *context = NULL;
    keel_context_params params =
        OPENS(KEEL_ONLY_NAMED, &bad[i].path, 1, .options = &bad[i].option,
              .option_count = bad[i].option != NULL);

    assert_int_equal(keel_open(&params, &context), bad[i].status);

    assert_null(context);
    expect_message(bad[i].part);
    params.flags |= KEEL_ALLOW_REFUSED;
    expect_ok(keel_open(&params, &context));
    keel_close(context);
  }
}

/* Once in a process, which may open many contexts. */
TEST_THAT(a_variable_that_refuses_a_plugin_is_said) {
  setenv("KEEL_BAD_QUEUE", "lots", 1);
  in_environment(NULL);
  unsetenv("KEEL_BAD_QUEUE");
  assert_non_null(strstr(lines, "a plugin is refused: "));
  assert_non_null(strstr(lines, "(from KEEL_BAD_QUEUE)"));
}

/* "name:type:choices:default," of each. */
static void list_options(keel_context *context, char *text, size_t size) {
  keel_option_facts option;
  *text = 0;
  for (uint32_t i = 0; keel_plugin_option(context, 0, i, &option) == KD_OK;
       i++) {
    size_t used = strlen(text);
    snprintf(text + used, size - used, "%s:%u:%s:%s,", option.name, option.type,
             option.choices ? option.choices : "",
             option.default_value ? option.default_value : "");
    assert_true(strlen(option.doc) > 10);
  }
}

#define TILES  "tiles:0:auto|on|off:auto,"
#define TUNED  "tuned:0:auto|off:auto,cut:1::-1,"
#define F64    "f64:0:auto|off:auto,"
#define SCRIPT "script:0::,"

TEST_THAT(options_are_listed) {
  static const struct {
    const char *plugin, *options;
  } plugins[] = {
      {BAD("OPTIONS"),
       "queue:1::4,share:2::,mode:0:fast|safe:safe,later:77::,"},
      {BAD("OPTIONS_NO"), ""},
      {CPU_PLUGIN,
       "isa:0:base|avx2|avx512:,bytes:0:plain|vnni|amx:,"
       "products:0:tiles|openblas:tiles,winograd:0:on|off:on,regions:0:on|off:"
       "on,"},
#ifdef OPENCL_PLUGIN
      {OPENCL_PLUGIN, TILES TUNED F64
       "commands:0:auto|on|off:auto,forms:0:auto|on|off:auto," SCRIPT},
#endif
#ifdef VULKAN_PLUGIN
      {VULKAN_PLUGIN, TILES TUNED F64
       "compiler:0:auto|off:auto,validation:0:on|off:off," SCRIPT},
#endif
#ifdef CUDA_PLUGIN
      {CUDA_PLUGIN,
       "driver:0::,nvrtc:0::,cublaslt:0::,cudnn:0::,nccl:0::,"
       "tf32:0:on|off:off," TILES SCRIPT},
#endif
  };
  for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
    const char *paths[] = {plugins[i].plugin, TOY("plain")};
    const keel_context_params params = {
        .struct_size = sizeof params,
        .flags = KEEL_ONLY_NAMED | KEEL_DESCRIBE, /* no driver is asked */
        .plugins = paths,
        .plugin_count = 2};
    keel_option_facts option;
    char text[500];
    keel_context *context = open_params(&params);
    list_options(context, text, sizeof text);
    assert_string_equal(text, plugins[i].options);
    assert_int_equal(keel_plugin_option(context, 0, 99, &option),
                     KD_OUT_OF_RANGE);
    assert_int_equal(keel_plugin_option(context, 1, 0, &option),
                     KD_UNIMPLEMENTED);
    assert_int_equal(keel_plugin_option(context, 2, 0, &option),
                     KD_OUT_OF_RANGE);
    keel_close(context);
  }
}

/* A library that was refused is gone, and its list stays. */
TEST_THAT(a_refused_plugin_still_lists_its_options) {
  const char *path = BAD("OPTIONS"), *option = "bad.queue=many";
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, &path, 1, .options = &option,
            .option_count = 1);
  keel_option_facts facts;
  keel_context *context = open_params(&params);
  assert_int_equal(keel_device_count(context), 0);
  expect_ok(keel_plugin_option(context, 0, 2, &facts));
  assert_string_equal(facts.choices, "fast|safe");
  keel_close(context);
}

/* What makes no sense is not shown; what has no name is said. */
TEST_THAT(odd_properties_do_no_harm) {
  keel_context *context = open_with(BAD("PROPERTIES"), NULL, KEEL_NO_WORKERS);
  keel_device *device = keel_device_at(context, 0);
  keel_property p;
  expect_ok(keel_device_property(device, 0, &p));
  assert_string_equal(p.name, "sound");
  assert_string_equal(p.unit, "W");
  assert_true(p.type == KD_PROPERTY_REAL && p.real == 2.5);
  expect_ok(keel_device_property(device, 1, &p));
  assert_string_equal(p.unit, "a unit that is ");
  assert_int_equal(p.type, KD_PROPERTY_NONE);
  expect_ok(keel_device_property(device, 2, &p));
  assert_int_equal(p.type, KD_PROPERTY_NONE);
  expect_ok(keel_device_property(device, 3, &p));
  assert_int_equal(strlen(p.name), 62); /* not half a character */
  assert_int_equal(strlen(p.text), 254);
  expect_ok(keel_device_property(device, 4, &p));
  assert_string_equal(p.name, "later");
  assert_int_equal(p.type, KD_PROPERTY_NONE);
  expect_ok(keel_device_property(device, 5, &p));
  assert_string_equal(p.name, "strange");
  assert_int_equal(p.type, KD_PROPERTY_NONE);
  expect_fails(keel_device_property(device, 6, &p), KD_INTERNAL,
               "a property without a name; while property 6 of bad:0 was");
  expect_fails(keel_device_property(device, 7, &p), KD_OUT_OF_RANGE,
               "there are 7");
  expect_ok(keel_device_find_property(device, "later", &p));
  assert_int_equal(keel_device_find_property(device, "x", &p), KD_INTERNAL);
  keel_close(context);
  context = open_with(BAD("PROPERTY_ALL"), TOY("plain"), KEEL_NO_WORKERS);
  device = keel_device_at(context, 0);
  expect_fails(keel_device_find_property(device, "x", &p), KD_NOT_FOUND,
               "bad:0 has no property \"x\"");
  keel_close(context);
}

static const kd_plugin *linked_entry(const kd_host *host) {
  return toy_plugin(host, "linked");
}

TEST_THAT(plugins_may_be_linked_in) {
  static const kd_entry entries[] = {linked_entry};
  static const char *const files[] = {MINIMAL_PLUGIN};
  const keel_context_params params =
      OPENS(KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED, files, 1, .entries = entries,
            .entry_count = 1);
  const float data[] = {1, -2, 3, -4}, want[] = {-1, 2, -3, 4};
  for (int round = 0; round < 2; round++) {
    keel_context *context = NULL, *other = NULL;
    kd_device *handle = NULL;
    expect_ok(keel_open(&params, &context));
    expect_ok(keel_open(&params, &other)); /* shares it */
    keel_device *device = find_device(context, "linked");
    assert_int_equal(keel_device_count(context), 2);
    keel_tensor *x = floats(context, 4, data), *y = NULL;
    keel_op *op = prepare_op(context, "Neg", NULL, 0, device);
    expect_ok(keel_op_call(op, &x, 1, &y, 1));
    expect_floats(y, want, 4);
    RELEASE(x, y, op);
    /* and a vendor's own table */
    const uint32_t *watts = keel_device_extension(device, "x.linked.power/1");
    assert_non_null(watts);
    assert_int_equal(watts[0], 75);
    assert_null(keel_device_extension(device, "x.linked.heat/1"));
    expect_ok(keel_device_handle(device, &handle));
    assert_non_null(handle);
    expect_ok(keel_device_find(context, "minimal", &device));
    assert_null(keel_device_extension(device, "x.linked.power/1"));
    RELEASE(other, context);
  }
  const kd_entry nothing = NULL;
  keel_context *context = NULL;
  const keel_context_params wrong = {
      .struct_size = sizeof wrong,
      .flags = KEEL_ONLY_NAMED | KEEL_ALLOW_REFUSED,
      .entries = &nothing,
      .entry_count = 1};
  expect_fails(keel_open(&wrong, &context), KD_INVALID_ARGUMENT,
               "entry 0 of the plugins is NULL");
}

/* Calls one op with f32[4] on the plugin of opset 17. */
static keel_status call_old(keel_context *context, const char *op) {
  const float data[4] = {0};
  keel_device *device = keel_device_at(context, 0);
  keel_op *made = NULL;
  keel_tensor *x = floats(context, 4, data), *y = NULL;
  keel_status status = keel_op_prepare(context, op, NULL, 0, device, &made);
  if (status == KD_OK) status = keel_op_call(made, &x, 1, &y, 1);
  RELEASE(x, y, made);
  return status;
}

/* DFT took its axis as an attribute until 19: an old kernel would not see the input, and
 * compute something else. */
TEST_THAT(ops_younger_than_a_plugin_are_not_offered) {
  keel_context *context = open_with(TOY("old"), NULL, KEEL_NO_WORKERS);
  keel_kernel_facts facts;
  keel_device *device = keel_device_at(context, 0);
  expect_ok(keel_device_kernel(device, 1, &facts));
  assert_string_equal(facts.op, "DFT");
  assert_int_equal(facts.opset_max, 17);
  expect_ok(keel_device_kernel(device, 2, &facts));
  assert_true(facts.opset_max == UINT32_MAX);
  expect_ok(call_old(context, "Relu"));
  expect_ok(call_old(context, "Gelu"));
  const float data[4] = {0};
  keel_tensor *y = NULL;
  keel_tensor *x = create_tensor(context, KD_F32, DIMS(1, 4, 1), data);
  keel_op *op = prepare_op(context, "DFT", NULL, 0, device);
  assert_int_equal(keel_op_call(op, &x, 1, &y, 1), KD_UNIMPLEMENTED);
  RELEASE(op, x, context);
}

TEST_THAT(odd_but_legal_plugins_are_loaded) {
  keel_context *context = open_with(BAD("LARGER"), NULL, KEEL_NO_WORKERS);
  keel_plugin_info info;
  keel_plugin_at(context, 0, &info);
  expect_ok(info.status);
  assert_int_equal(keel_device_count(context), 1);
  keel_device *device = find_device(context, "bad:0");
  keel_op *op = NULL; /* it can't be opened, and that is said */
  expect_fails(keel_op_prepare(context, "Relu", NULL, 0, device, &op),
               KD_UNAVAILABLE, "while bad:0 was opened");
  keel_close(context);
  context = open_with(BAD("NO_DEVICE"), NULL, KEEL_NO_WORKERS);
  keel_plugin_at(context, 0, &info);
  expect_ok(info.status);
  assert_non_null(strstr(info.reason, "no device"));
  /* what it said of it, whatever KEEL_LOG shows */
  assert_non_null(strstr(info.reason, "no flux in slot 3"));
  keel_close(context);
}

TEST_THAT(files_that_are_no_plugins_are_refused) {
  const char *text = in_folder("text.so");
  write_text(text, "this is a text file\n");
  expect_refused(text, KD_INVALID_ARGUMENT, "no ELF header", "shared library");
  write_text(text, "");
  expect_refused(text, KD_INVALID_ARGUMENT, "no ELF header", "");
  expect_refused("/nowhere/at/all.so", KD_NOT_FOUND, "no such file", "path");
  expect_refused(TOY("missing"), KD_UNAVAILABLE, "symbol_that_nobody_has",
                 "ldd -r");
  expect_refused(TOY("needs"), KD_UNAVAILABLE, "libgone.so",
                 "install the missing library");
}

/* What can be made here; the texts of what can't are below. */
TEST_THAT(hints_follow_what_the_linker_says) {
  expect_refused(TOY("static_tls"), KD_UNAVAILABLE, "static TLS",
                 "optional_static_tls");
  expect_refused(TOY("program"), KD_UNAVAILABLE,
                 "position-independent executable", "with -shared");
  expect_refused(TOY("needs_musl"), KD_UNAVAILABLE, "libc.musl-",
                 "built for musl");
  expect_refused(TOY("missing"), KD_UNAVAILABLE, "symbol_that_nobody_has",
                 "another version");
}

TEST_THAT(every_text_of_the_linker_has_its_hint) {
  static const char *const rows[][2] = {
      {"a.so: failed to map segment from shared object", "noexec"},
      {"a.so: failed to map segment from shared object: Operation not "
       "permitted",
       "noexec"},
      {"a.so: cannot enable executable stack as shared object requires:"
       " Invalid argument",
       "noexecstack"},
      {"a.so: cannot make segment writable for relocation: Permission denied",
       "-fPIC"},
      {"a.so: cannot restore segment prot after relocation: Permission denied",
       "-fPIC"},
      {"/lib/libc.so: invalid ELF header", "built for musl"},
      {"libc.so.6: cannot open shared object file: No such file or directory",
       "built for glibc"},
      {"/lib/libc.so.6: version `GLIBC_2.99' not found (required by a.so)",
       "newer library"},
      {"a.so: CPU ISA level is lower than required", "newer processor"},
      {"libb.so: wrong ELF class: ELFCLASS32", "another machine"},
      {"libb.so: invalid ELF header", "is not a library"},
      {"libb.so: file too short", "not whole"},
      {"libb.so: cannot open shared object file: Permission denied",
       "right to read"},
      {"libb.so: cannot open shared object file: No such file or directory",
       "install the missing library"},
      {"a.so: something new", "ask the plugin's vendor"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    assert_non_null(strstr(keel_linker_hint(rows[i][0]), rows[i][1]));
}

TEST_THAT(other_machines_are_named) {
  const char *path = in_folder("other.so");
  copy_file(CPU_PLUGIN, path, -1);
  FILE *file = fopen(path, "r+b");
  assert_non_null(file);
  fseek(file, 18, SEEK_SET);
  fputc(0x16, file); /* e_machine: IBM S/390 */
  fclose(file);
  expect_refused(path, KD_INCOMPATIBLE, "another machine", "this machine");
}

TEST_THAT(truncated_libraries_never_reach_the_linker) {
  struct stat facts;
  assert_int_equal(stat(CPU_PLUGIN, &facts), 0);
  for (int i = 0; i < 50; i++) {
    const char *path = in_folder("cut.so");
    copy_file(CPU_PLUGIN, path, (long)(facts.st_size * i / 50));
    keel_context *context = open_with(path, NULL, KEEL_NO_WORKERS);
    keel_plugin_info info;
    keel_plugin_at(context, 0, &info);
    assert_int_not_equal(info.status, KD_OK);
    assert_true(*info.reason && *info.hint);
    keel_close(context);
  }
}

TEST_THAT(what_others_can_write_is_refused) {
  const char *path = in_folder("open.so");
  copy_file(TOY("plain"), path, -1);
  chmod(path, 0666);
  expect_refused(path, KD_PERMISSION_DENIED, "the file is writable by everyone",
                 "chmod");
  chmod(path, 0644);
  chmod(folder, 0777);
  expect_refused(path, KD_PERMISSION_DENIED, "its folder", "chmod");
  chmod(folder, 0700);
}

static keel_status loaded(const char *path) {
  keel_context *context = open_with(path, NULL, KEEL_NO_WORKERS);
  keel_plugin_info info;
  keel_plugin_at(context, 0, &info);
  keel_status status = info.status;
  keel_close(context);
  return status;
}

/* Vendors build in /tmp: there the sticky bit keeps a file to its owner. */
TEST_THAT(a_sticky_folder_keeps_a_file_to_its_owner) {
  const uid_t other = 12345;
  const char *path = in_folder("sticky.so");
  copy_file(TOY("plain"), path, -1);
  chmod(path, 0644);
  chmod(folder, 01777);
  expect_ok(loaded(path));
  if (geteuid() != 0) {
    chmod(folder, 0700);
    skip(); /* to give files away, one must be root */
  }
  assert_int_equal(chown(path, other, (gid_t)-1), 0);
  expect_refused(path, KD_PERMISSION_DENIED, "belongs to user 12345", "copy");
  assert_int_equal(chown(path, 0, (gid_t)-1), 0);
  /* the folder's owner may exchange it */
  assert_int_equal(chown(folder, other, (gid_t)-1), 0);
  expect_refused(path, KD_PERMISSION_DENIED, "belongs to user 12345", "copy");
  assert_int_equal(chown(folder, 0, (gid_t)-1), 0);
  chmod(path, 0646);
  expect_refused(path, KD_PERMISSION_DENIED, "the file is writable by everyone",
                 "");
  chmod(folder, 0700);
}

/* A link in such a folder may be somebody else's, and lead anywhere. */
TEST_THAT(links_and_folders_on_the_way_are_looked_at) {
  char inner[300], file[400];
  const char *link = in_folder("link.so");
  snprintf(inner, sizeof inner, "%s/inner", folder);
  snprintf(file, sizeof file, "%s/deep.so", inner);
  mkdir(inner, 0755);
  copy_file(TOY("plain"), file, -1);
  chmod(file, 0644);
  expect_ok(loaded(file));
  chmod(folder, 0777); /* a folder above the file's */
  expect_refused(file, KD_PERMISSION_DENIED, "its folder", "chmod");
  chmod(folder, 01777);
  expect_ok(loaded(file));
  unlink(link);
  assert_int_equal(symlink("inner/../inner/./deep.so", link), 0);
  expect_ok(loaded(link));
  if (geteuid() == 0) {
    assert_int_equal(lchown(link, 12345, (gid_t)-1), 0);
    expect_refused(link, KD_PERMISSION_DENIED, "link.so there belongs to user",
                   "copy");
    assert_int_equal(chown(inner, 12345, (gid_t)-1), 0);
    expect_refused(file, KD_PERMISSION_DENIED, "inner there belongs to user",
                   "copy");
    assert_int_equal(chown(inner, 0, (gid_t)-1), 0);
  }
  unlink(link);
  assert_int_equal(symlink("link.so", link), 0);
  expect_refused(link, KD_NOT_FOUND, "no such file", "path");
  unlink(link);
  unlink(file);
  rmdir(inner);
  chmod(folder, 0700);
}

/* Who asks for a device of a plugin that was refused is told why it was. */
TEST_THAT(a_device_that_is_missed_says_what_was_refused) {
  keel_device *device = NULL;
  const char *path = in_folder("flux.so");
  copy_file(TOY("plain"), path, -1);
  chmod(path, 0666);
  keel_context *context = open_with(path, CPU_PLUGIN, KEEL_NO_WORKERS);
  for (int i = 0; i < 2; i++) { /* by the file's name, and by any */
    const char *name = i ? "flux:0" : "plain";
    expect_fails(keel_device_find(context, name, &device), KD_NOT_FOUND,
                 "there are cpu:0; a plugin was refused: ");
    expect_message("flux.so: the file is writable by everyone");
  }
  keel_close(context);
}

TEST_THAT(of_two_with_one_name_the_first_is_kept) {
  const char *first = in_folder("first.so");
  copy_file(TOY("plain"), first, -1);
  keel_context *context = open_with(first, TOY("plain"), KEEL_NO_WORKERS);
  keel_plugin_info info;
  keel_plugin_at(context, 0, &info);
  expect_ok(info.status);
  keel_plugin_at(context, 1, &info);
  assert_int_equal(info.status, KD_ALREADY_EXISTS);
  assert_non_null(strstr(info.reason, "first.so"));
  keel_close(context);
  /* the same file twice is one plugin */
  context = open_with(first, first, KEEL_NO_WORKERS);
  assert_int_equal(keel_plugin_count(context), 1);
  keel_close(context);
}

TEST_THAT(manifests_name_their_library) {
  char text[600];
  const char *path = in_folder("good.json");
#ifndef KEEL_WITH_CJSON
  skip();
#endif
  snprintf(text, sizeof text,
           "{\"library\": \"%s\", \"name\": \"cpu\", \"abi\": \"0.9\","
           " \"vendor\": \"Keel\", \"options\": {\"isa\": \"base\"}}",
           CPU_PLUGIN);
  strcat(text, " \r\n\t\n"); /* as editors leave it */
  write_text(path, text);
  keel_context *context = open_with(path, NULL, KEEL_NO_WORKERS);
  keel_device_facts facts;
  assert_int_equal(keel_device_count(context), 1);
  keel_device_describe(keel_device_at(context, 0), &facts);
  assert_string_equal(facts.driver, "plain loops"); /* the option arrived */
  keel_close(context);
}

TEST_THAT(broken_manifests_are_refused) {
  const char *path = in_folder("broken.json");
  const struct {
    const char *text, *reason;
  } cases[] = {
      {"{\"library\": ", "not JSON"},
      {"[]", "not a JSON object"},
      {"{}", "has no \"library\""},
      {"{\"library\": 7}", "not a string"},
      {"{\"library\": \"nowhere.so\"}", "which is not there"},
      {"{\"library\": \"x\", \"abi\": \"new\"}",
       "does not have the form \"0.9\""},
      {"{\"library\": \"x\", \"options\": []}", "not an object"},
      {"{\"library\": \"" CPU_PLUGIN "\"} {}", "text behind its object"},
      {"{\"library\": \"" CPU_PLUGIN "\"}\n#", "text behind its object"},
      {"{\"library\": \"" CPU_PLUGIN "\\u0000x\"}", "a zero character"},
      {"{\"lib\\u0000\": 1, \"library\": \"" CPU_PLUGIN "\"}",
       "a zero character"},
  };
#ifndef KEEL_WITH_CJSON
  skip();
#endif
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    write_text(path, cases[i].text);
    keel_context *context = open_with(path, CPU_PLUGIN, KEEL_NO_WORKERS);
    keel_plugin_info info;
    keel_plugin_at(context, 0, &info);
    assert_int_not_equal(info.status, KD_OK);
    if (!strstr(info.reason, cases[i].reason))
      fail_msg("\"%s\" does not say \"%s\"", info.reason, cases[i].reason);
    assert_int_equal(keel_device_count(context), 1);
    keel_close(context);
  }
}

TEST_THAT(plugins_open_and_close_again) {
  for (int i = 0; i < 5; i++) {
    keel_context *context = open_with(CPU_PLUGIN, MINIMAL_PLUGIN, 1);
    assert_int_equal(keel_device_count(context), 2);
    keel_close(context);
  }
}

/* One library serves several contexts: the first to close takes nothing away
 * from the others. */
TEST_THAT(contexts_share_a_plugin) {
  const float data[] = {-1, 2}, want[] = {0, 2};
  keel_context *first = open_with(CPU_PLUGIN, NULL, 1);
  keel_context *second = open_with(CPU_PLUGIN, NULL, 1);
  for (int i = 0; i < 2; i++) {
    keel_context *context = i ? first : second;
    keel_tensor *x = floats(context, 2, data),
                *y = call_op(context, "Relu", NULL, 0, &x, 1);
    expect_floats(y, want, 2);
    RELEASE(x, y, context);
  }
}

RUN_TESTS(make_folder, remove_folder)
