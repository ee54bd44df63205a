/* doctor.c - `keel doctor`: what there is, what is wrong with it, and what to do. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "system/environment.h"
#include "tool.h"
#include "watched.h"

extern char **environ;

typedef struct arguments {
  common common;
  double seconds, limit;
} arguments;

static arguments given = {
    .common = {.command = "doctor"}, .seconds = 1, .limit = WATCHED_LIMIT};

static const option options[] = {
    {"--time", "SECONDS", "how long each device runs (1); 0: it does not run",
     .number = &given.seconds},
    {"--limit", "SECONDS",
     "how long a call into a plugin may take (30), before it is\n"
     "refused; 0: as long as it takes",
     .number = &given.limit},
    {0}};

static const command syntax = {
    "usage: keel doctor [OPTION]...\n\n"
    "Checks everything that models need: the environment, the folders of\n"
    "plugins and their permissions, the libraries that plugins open, each\n"
    "plugin, and each device, which multiplies matrices for a second, in a\n"
    "child process that a broken plugin may end or hang. Reports each problem\n"
    "and its remedy. Exit status 1 if there is a problem.\n\n",
    options, &given.common, NULL, false};

static int findings;

static void section(const char *name) {
  print("\n%s\n", name);
}

/* A line of what is as it should be. */
static void fine(const char *what, const char *format, ...) KD_PRINTF(2, 3);
static void fine(const char *what, const char *format, ...) {
  va_list args;
  print("  ok    %s: ", shown(what));
  va_start(args, format);
  vfprintf(result, format, args);
  va_end(args);
  print("\n");
}

/* A line of what is not, with what to do. */
static void wrong(const char *what, const char *hint, const char *format, ...)
    KD_PRINTF(3, 4);
static void wrong(const char *what, const char *hint, const char *format, ...) {
  va_list args;
  findings++;
  print("  WRONG %s: ", shown(what));
  va_start(args, format);
  vfprintf(result, format, args);
  va_end(args);
  print("\n        -> %s\n", hint);
}

/* ---- the environment ------------------------------------------------------ */

/* KEEL_..., but for those of plugins' options, KEEL_<PLUGIN>_<NAME>. */
static const char *const variables[] = {
    "KEEL_PLUGIN_PATH", "KEEL_DEVICE",     "KEEL_VISIBLE_DEVICES",
    "KEEL_THREADS",     "KEEL_CACHE_SIZE", "KEEL_LOG",
    "KEEL_LAYERS",      "KEEL_LIBRARY"}; /* the last: Python's */

/* Whether a variable begins with KEEL_ and the plugin's name, as the host writes it. */
static bool is_of_plugin(const char *variable, size_t size, const char *name) {
  size_t at = 5;
  for (; *name && at < size; name++, at++) {
    int letter =
        isalnum((unsigned char)*name) ? toupper((unsigned char)*name) : '_';
    if (variable[at] != letter) return false;
  }
  return !*name && at < size && variable[at] == '_';
}

static bool is_option_of_plugin(keel_context *context, const char *variable,
                                size_t size) {
  keel_plugin_info info;
  for (uint32_t i = 0; keel_plugin_at(context, i, &info) == KD_OK; i++) {
    keel_option_facts option;
    keel_status status = KD_OK;
    if (!info.name || !is_of_plugin(variable, size, info.name)) continue;
    size_t rest = 5 + strlen(info.name) + 1;
    for (uint32_t k = 0;
         (status = keel_plugin_option(context, i, k, &option)) == KD_OK; k++)
      if (strlen(option.name) == size - rest &&
          !strncasecmp(option.name, variable + rest, size - rest))
        return true;
    if (status == KD_UNIMPLEMENTED) return true; /* its options are not known */
  }
  return false;
}

static void look_at_variables(keel_context *context) {
  section("Environment");
  bool any = false;
  for (char **at = environ; *at; at++) {
    size_t size = strcspn(*at, "=");
    bool known = false;
    if (strncmp(*at, "KEEL_", 5) != 0) continue;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
      known |=
          strlen(variables[i]) == size && !strncmp(variables[i], *at, size);
    any = true;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)size, *at);
    if (known || is_option_of_plugin(context, *at, size))
      fine(name, "%s", (*at)[size] ? *at + size + 1 : "");
    else
      wrong(name,
            "no part of Keel reads it; `keel --help` lists variables, `keel"
            " plugins --options` the plugins'",
            "is not known");
  }
  if (!any) fine("KEEL_*", "no variable is set");
}

/* ---- paths ---------------------------------------------------------------- */

/* A file or folder whose plugins run with this user's rights: others may not write to it. */
static void look_at_rights(const char *path) {
  struct stat facts;
  if (stat(path, &facts) != 0)
    wrong(path, "name one that is there, or drop it", "%s", strerror(errno));
  else if (access(path, R_OK) != 0)
    wrong(path, "give this user the right to read it", "can't be read");
  else if (facts.st_mode & S_IWOTH && !(facts.st_mode & S_ISVTX))
    wrong(path, "chmod o-w: plugins there run code in your processes",
          "writable by everyone");
  else
    fine(path, "%s", S_ISDIR(facts.st_mode) ? "a folder" : "a file");
}

static void look_at_folder(const char *path) {
  if (access(path, F_OK) == 0) look_at_rights(path);
}

static void look_at_paths(void) {
  section("Where plugins are looked for");
  const char *list = keel_environment("KEEL_PLUGIN_PATH");
  char path[4200], folder[4096];
  for (const char *at = list; at && *at; at += strspn(at, ":")) {
    size_t size = strcspn(at, ":");
    snprintf(path, sizeof path, "%.*s", (int)size, at);
    if (size) look_at_rights(path);
    at += size;
  }
  if (keel_user_folder("XDG_CONFIG_HOME", ".config", folder, sizeof folder)) {
    snprintf(path, sizeof path, "%s/keel/plugins.d", folder);
    look_at_folder(path);
  }
  look_at_folder("/etc/keel/plugins.d");
  look_at_folder("/usr/share/keel/plugins.d");
  Dl_info facts;
  if (!dladdr((void *)(uintptr_t)keel_version, &facts) || !facts.dli_fname)
    return;
  const char *slash = strrchr(facts.dli_fname, '/');
  snprintf(path, sizeof path, "%.*s/keel",
           slash ? (int)(slash - facts.dli_fname) : 1,
           slash ? facts.dli_fname : ".");
  if (access(path, F_OK) == 0)
    look_at_rights(path);
  else
    wrong(path, "install plugins: the package keel-plugin-cpu is one",
          "the folder beside libkeel is not there");
}

/* ---- libraries ------------------------------------------------------------ */

/* Libraries that plugins open when they run, one of several in turn, and their packages. */
static const struct {
  const char *plugin, *library, *or_library, *package, *without;
} libraries[] = {
    {"cpu", "libdnnl.so.2", NULL, "libdnnl2", "convolutions are slower"},
    {"cpu", "libopenblas.so.0", NULL, "libopenblas0",
     "there is no option products=openblas"},
    {"opencl", "libOpenCL.so.1", NULL, "ocl-icd-libopencl1",
     "there is no OpenCL"},
    {"vulkan", "libvulkan.so.1", NULL, "libvulkan1", "there is no Vulkan"},
    {"cuda", "libcuda.so.1", NULL, "libcuda1", "there is no NVIDIA device"},
    {"cuda", "libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc12",
     "kernels can't be compiled"},
    {"cuda", "libcublasLt.so.13", "libcublasLt.so.12", "libcublaslt12",
     "products are slower"},
    {"cuda", "libcudnn.so.9", "libcudnn.so.8", "libcudnn9-cuda-12",
     "convolutions are slower"},
};

/* In a process of its own: libraries run code when they are loaded. */
static bool doctor_is_there(const char *library) {
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(5); /* of a library that hangs */
    if (!freopen("/dev/null", "w", stdout) ||
        !freopen("/dev/null", "w", stderr))
      _exit(2);
    _exit(dlopen(library, RTLD_LAZY | RTLD_LOCAL) ? 0 : 1);
  }
  int status = 1;
  while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
    ;
  return child > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static const char *package_of(const char *text) {
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
    if (strstr(text, libraries[i].library)) return libraries[i].package;
  return NULL;
}

static void look_at_libraries(keel_context *context) {
  section("Libraries that plugins open");
  for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++) {
    keel_plugin_info info;
    bool loaded = false;
    for (uint32_t k = 0; keel_plugin_at(context, k, &info) == KD_OK; k++)
      loaded |= info.status == KD_OK && info.name &&
                !strcmp(info.name, libraries[i].plugin);
    if (!loaded) continue;
    const char *other = libraries[i].or_library;
    if (doctor_is_there(libraries[i].library))
      fine(libraries[i].library, "for %s", libraries[i].plugin);
    else if (other && doctor_is_there(other))
      fine(other, "for %s", libraries[i].plugin);
    else
      print("  none  %s: %s; Debian's package %s has it (for %s)\n",
            libraries[i].library, libraries[i].without, libraries[i].package,
            libraries[i].plugin);
  }
}

/* ---- plugins -------------------------------------------------------------- */

static void look_at_plugins(keel_context *context) {
  section("Plugins");
  keel_plugin_info info;
  uint32_t i = 0;
  for (; keel_plugin_at(context, i, &info) == KD_OK; i++) {
    const char *package = package_of(info.reason);
    char hint[300];
    snprintf(hint, sizeof hint, package ? "install %s" : "%s",
             package ? package : info.hint);
    if (info.status != KD_OK) {
      wrong(info.path, *hint ? hint : "drop it, or ask its vendor", "%s: %s",
            keel_status_name(info.status), info.reason);
      continue;
    }
    if (!info.abi_version) {
      print("  none  %s: %s\n", shown(info.path), info.reason);
      continue;
    }
    struct stat facts;
    if (stat(info.path, &facts) == 0 && facts.st_mode & S_IWOTH)
      wrong(info.path, "chmod o-w: its code runs in your processes",
            "writable by everyone");
    print("  %s  %s %s by %s (ABI %u.%u): %u device%s; %s\n",
          info.device_count ? "ok  " : "none", info.name,
          info.version ? info.version : "?", info.vendor ? info.vendor : "?",
          info.abi_version >> 16, info.abi_version & 0xffff, info.device_count,
          info.device_count == 1 ? "" : "s", shown(info.path));
    if (*info.reason)
      print("        %s%s%s%s\n", info.reason, package ? " (package " : "",
            package ? package : "", package ? ")" : "");
  }
  if (!i)
    wrong("plugins", "install keel-plugin-cpu, or set KEEL_PLUGIN_PATH",
          "there is none");
}

/* ---- devices -------------------------------------------------------------- */

#define SIDE 256

/* Multiplies for some time. A row of the first matrix counts up, the second is one:
 * the product is known. */
static keel_status doctor_multiply(keel_context *context, keel_device *device,
                                   const char *plugin, double seconds,
                                   double *out_rate, bool *out_right) {
  static float a[SIDE * SIDE], b[SIDE * SIDE], y[SIDE * SIDE];
  const int64_t dims[] = {SIDE, SIDE};
  keel_tensor *in[2] = {NULL, NULL}, *out = NULL;
  keel_op *op = NULL;
  uint64_t runs = 0;
  for (int i = 0; i < SIDE * SIDE; i++) {
    a[i] = (float)(i % 7) - 3;
    b[i] = i % (SIDE + 1) == 0;
  }
  keel_status status = keel_tensor_create(context, KD_F32, 2, dims, a, &in[0]);
  if (status == KD_OK)
    status = keel_tensor_create(context, KD_F32, 2, dims, b, &in[1]);
  watched_step(NULL, plugin, "a product of matrices");
  if (status == KD_OK)
    status = keel_op_prepare(context, "MatMul", NULL, 0, device, &op);
  double begin = now();
  while (status == KD_OK && (!runs || now() - begin < seconds)) {
    keel_tensor_release(out);
    out = NULL;
    watched_step(NULL, plugin, "a product of matrices");
    status = keel_op_call(op, in, 2, &out, 1);
    if (status == KD_OK) status = keel_tensor_read(out, y, sizeof y);
    runs++;
  }
  *out_rate = 2.0 * SIDE * SIDE * SIDE * (double)runs / (now() - begin) / 1e9;
  *out_right = status == KD_OK && !memcmp(a, y, sizeof y);
  keel_tensor_release(out);
  keel_tensor_release(in[0]);
  keel_tensor_release(in[1]);
  keel_op_release(op);
  return status;
}

static bool multiplies(keel_device *device) {
  keel_kernel_facts kernel;
  for (uint32_t i = 0; keel_device_kernel(device, i, &kernel) == KD_OK; i++)
    if (!strcmp(kernel.op, "MatMul") && !strcmp(kernel.domain, "ai.onnx") &&
        (!kernel.input_types[0] || kernel.input_types[0] & KD_TYPES(KD_F32)))
      return true;
  return false;
}

static void look_at_device(keel_context *context, keel_device *device) {
  keel_device_facts facts;
  keel_memory_facts memory;
  double rate = 0;
  bool right = false;
  keel_device_describe(device, &facts);
  print("  %s: %s (%s%s%s), level %u, %u kernels\n", facts.name, facts.product,
        facts.kind, *facts.driver ? ", " : "", facts.driver, facts.level,
        facts.kernel_count);
  if (keel_device_memory(device, &memory) != KD_OK) {
    wrong(facts.name, "look at the driver's own log; `keel-conformance doctor`",
          "can't be opened: %s", keel_message());
    return;
  }
  if (facts.same_as) print("        the same hardware as %s\n", facts.same_as);
  if (!(given.seconds > 0)) return;
  if (!multiplies(device)) {
    print("        has no MatMul on f32: not run\n");
    return;
  }
  progress("%s multiplies matrices", facts.name);
  keel_status status = doctor_multiply(context, device, facts.plugin,
                                       given.seconds, &rate, &right);
  progress_end();
  if (status != KD_OK)
    wrong(facts.name, "`keel-conformance run` says which promise breaks",
          "does not multiply: %s", keel_message());
  else if (!right)
    wrong(facts.name,
          "`keel-conformance run --rule 'op.*'` says which op is wrong",
          "a product of matrices is not right");
  else
    fine(facts.name,
         "multiplies matrices of %d x %d, %.1f GFLOP/s, copies included", SIDE,
         SIDE, rate);
}

static void look_at_devices(keel_context *context) {
  section("Devices");
  uint32_t count = keel_device_count(context);
  for (uint32_t i = 0; i < count; i++) {
    look_at_device(context, keel_device_at(context, i));
    watched_own();
  }
  if (!count)
    wrong("devices", "the plugins above say why they have none",
          "there is none");
}

static int doctor_look(void) {
  keel_context *context = common_open(&given.common, KEEL_ALLOW_REFUSED);
  if (!context) return 1;
  print("keel %s, device ABI %d.%d\n", keel_version(), KD_ABI_MAJOR,
        KD_ABI_MINOR);
  look_at_variables(context);
  look_at_paths();
  look_at_libraries(context);
  look_at_plugins(context);
  look_at_devices(context);
  keel_close(context);
  if (findings)
    print("\n%d thing%s wrong\n", findings, findings == 1 ? " is" : "s are");
  else
    print("\nnothing is wrong\n");
  return findings ? 1 : 0;
}

int keel_main_doctor(int argc, char **argv) {
  int status = options_read(&syntax, argc, argv);
  return status >= 0 ? status : watched_run(doctor_look, given.limit);
}
