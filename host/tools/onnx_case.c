/* onnx_case.c - one case of ONNX's backend tests: a folder with model.onnx and
 * test_data_set_N folders that hold input_K.pb and output_K.pb. */
#include <keel/debug.h>

#include <sys/stat.h>
#include <unistd.h>

#include "tool.h"

#define PORTS 64

static uint32_t file_kind(const keel_port *port) {
  return port->flags & KEEL_PORT_OPTIONAL   ? KEEL_FILE_OPTIONAL
         : port->flags & KEEL_PORT_SEQUENCE ? KEEL_FILE_SEQUENCE
                                            : KEEL_FILE_TENSOR;
}

/* A failed call is a skip where something is not supported. */
static outcome verdict(keel_status status, char *why, size_t size) {
  if (status == KD_OK) return PASS;
  snprintf(why, size, "%s", keel_message());
  return status == KD_UNIMPLEMENTED ? SKIP : FAIL;
}

/* ONNX 1.12 stores the data of bfloat16 ports as uint16: the same bits. */
static keel_status as_declared(const onnx_case *all, const keel_port *port,
                               keel_tensor **value) {
  keel_tensor *bits = *value, *typed = NULL;
  if (port->dtype != KD_BF16 || port->flags ||
      keel_tensor_dtype(bits) != KD_U16)
    return KD_OK;
  keel_status status = keel_tensor_create(
      all->context, KD_BF16, keel_tensor_rank(bits), keel_tensor_dims(bits),
      keel_tensor_data(bits), &typed);
  if (status == KD_OK) {
    keel_tensor_release(bits);
    *value = typed;
  }
  return status;
}

static outcome load_values(const onnx_case *all, const char *folder,
                           const char *what, keel_program *program,
                           uint32_t count, keel_tensor **values, char *why,
                           size_t size) {
  for (uint32_t i = 0; i < count; i++) {
    char path[4096];
    keel_port port;
    if (!strcmp(what, "input"))
      keel_program_input(program, i, &port);
    else
      keel_program_output(program, i, &port);
    snprintf(path, sizeof path, "%s/%s_%u.pb", folder, what, i);
    keel_status status =
        keel_value_load(all->context, path, file_kind(&port), &values[i]);
    if (status == KD_OK) status = as_declared(all, &port, &values[i]);
    outcome result = verdict(status, why, size);
    if (result != PASS) return result;
  }
  return PASS;
}

/* Some cases' data is of other shapes than their model declares. */
static bool are_of_shape(keel_program *program, keel_tensor *const *in,
                         uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    keel_port port;
    keel_program_input(program, i, &port);
    const int64_t *dims = keel_tensor_dims(in[i]);
    if (!dims || port.rank == KEEL_RANK_UNKNOWN) continue;
    if (port.rank != keel_tensor_rank(in[i])) return false;
    for (uint32_t k = 0; k < port.rank; k++)
      if (port.dims[k] >= 0 && port.dims[k] != dims[k]) return false;
  }
  return true;
}

/* One run, whose outputs are compared. */
static outcome run_once(const onnx_case *all, keel_plan *plan,
                        keel_tensor *const *in, uint32_t n,
                        keel_tensor *const *want, uint32_t m, char *why,
                        size_t size) {
  keel_tensor *got[PORTS] = {0};
  outcome result = verdict(keel_plan_run(plan, in, n, got, m), why, size);
  for (uint32_t i = 0; i < m && result == PASS; i++) {
    char text[400];
    if (!values_agree(got[i], want[i], all->within, text, sizeof text)) {
      snprintf(why, size, "output %u%s", i, text);
      result = FAIL;
    }
  }
  for (uint32_t i = 0; i < m; i++)
    keel_tensor_release(got[i]);
  return result;
}

/* The second run reuses the first one's choices; a later one is recorded, and launched again. */
#define RUNS 5
static outcome run_set(const onnx_case *all, const char *folder,
                       keel_program *program, keel_plan *plan, char *why,
                       size_t size) {
  keel_tensor *in[PORTS] = {0}, *want[PORTS] = {0};
  uint32_t n = keel_program_input_count(program);
  uint32_t m = keel_program_output_count(program);
  if (n > PORTS || m > PORTS) {
    snprintf(why, size, "more than %d inputs or outputs", PORTS);
    return SKIP;
  }
  outcome result = load_values(all, folder, "input", program, n, in, why, size);
  if (result == PASS)
    result = load_values(all, folder, "output", program, m, want, why, size);
  if (result == PASS && all->through && !strcmp(all->through, "compiled") &&
      !are_of_shape(program, in, n)) {
    snprintf(why, size,
             "its data has other shapes than the model declares and is compiled"
             " for");
    result = SKIP;
  }
  if (result == PASS) result = run_once(all, plan, in, n, want, m, why, size);
  keel_plan_profile(plan, 0); /* the next one makes no values */
  for (int run = 2; run <= RUNS && result == PASS; run++)
    if (run_once(all, plan, in, n, want, m, why, size) != PASS) {
      size_t length = strlen(why);
      snprintf(why + length, size - length, ", in run %d", run);
      result = FAIL;
    }
  for (uint32_t i = 0; i < PORTS; i++) {
    keel_tensor_release(in[i]);
    keel_tensor_release(want[i]);
  }
  return result;
}

static outcome run_sets(const onnx_case *all, const char *folder,
                        keel_program *program, keel_plan *plan, char *why,
                        size_t size) {
  outcome result = PASS;
  uint32_t sets = 0;
  for (; result == PASS; sets++) {
    char path[4096];
    struct stat facts;
    snprintf(path, sizeof path, "%s/test_data_set_%u", folder, sets);
    if (stat(path, &facts) != 0) break;
    result = run_set(all, path, program, plan, why, size);
  }
  if (!sets) {
    snprintf(why, size, "it has no test_data_set_0");
    return SKIP;
  }
  return result;
}

/* The devices of ops, from the profile. */
typedef struct places {
  uint32_t here, elsewhere;
  bool nested; /* perhaps not all of its ops ran */
} places;

static places onnx_case_places_of(const onnx_case *how, keel_plan *plan) {
  keel_device_facts facts;
  keel_device_describe(how->device, &facts);
  places all = {0};
  keel_profile_line line;
  for (uint32_t i = 0; keel_plan_profile_line(plan, i, &line) == KD_OK; i++) {
    all.nested |= !strcmp(line.op, "If") || !strcmp(line.op, "Loop") ||
                  !strcmp(line.op, "Scan") || !strcmp(line.op, "SequenceMap");
    if (!line.calls || !strcmp(line.device, "host") ||
        !strncmp(line.op, "Copy ", 5))
      continue;
    if (!strcmp(line.device, facts.name))
      all.here++;
    else
      all.elsewhere++;
  }
  return all;
}

static extent extent_of(const places *ran) {
  return ran->here ? (ran->elsewhere ? PART : WHOLE) : NONE;
}

/* Checks the device's claimed support against its actual runs. */
static outcome check_support(const onnx_case *how, keel_program *program,
                             const places *ran, char *why, size_t size) {
  keel_status said = keel_program_support(program, how->device, NULL, NULL);
  if (said == KD_OK && ran->elsewhere) {
    snprintf(why, size,
             "keel_program_support reports that the device takes all ops, and "
             "%u ran elsewhere",
             (unsigned)ran->elsewhere);
    return FAIL;
  }
  if (said == KD_UNIMPLEMENTED && !ran->elsewhere && !ran->nested) {
    snprintf(why, size,
             "keel_program_support reports \"%s\", and nothing ran elsewhere",
             keel_message());
    return FAIL;
  }
  return PASS;
}

/* The program as it is when it was saved and loaded. */
static keel_status go_through(const onnx_case *how, keel_program **program) {
  char path[] = "/tmp/keel-case-XXXXXX";
  bool text = !strcmp(how->through, "text");
  keel_program *made = NULL, *again = NULL;
  keel_plan_params params = {.struct_size = sizeof params,
                             .device = how->device};
  keel_status status = KD_OK;
  if (!strcmp(how->through, "compiled"))
    status = keel_program_compile(*program, &params, &made);
  int file = status == KD_OK ? mkstemp(path) : -1;
  if (file < 0) return status == KD_OK ? KD_UNAVAILABLE : status;
  close(file);
  status = keel_program_save(made ? made : *program, path,
                             text ? KEEL_SAVE_TEXT : 0);
  if (status == KD_OK) status = keel_program_load(how->context, path, &again);
  unlink(path);
  keel_program_release(made);
  if (status != KD_OK) return status;
  keel_program_release(*program);
  *program = again;
  return KD_OK;
}

/* Where the data have a value for each initializer as well, behind the inputs or among them, all
 * become inputs. */
static keel_status override_all(const char *folder, keel_program **program) {
  const char *names[PORTS];
  char path[4096];
  struct stat facts;
  keel_program *made = NULL;
  uint32_t count = keel_program_initializer_count(*program),
           all = keel_program_input_count(*program) + count;
  snprintf(path, sizeof path, "%s/test_data_set_0/input_%u.pb", folder,
           all - 1);
  if (!count || count > PORTS || stat(path, &facts) != 0) return KD_OK;
  for (uint32_t i = 0; i < count; i++) {
    keel_port port;
    keel_program_initializer(*program, i, &port);
    names[i] = port.name;
  }
  keel_status status = keel_program_override(*program, names, count, &made);
  if (status != KD_OK) return status;
  keel_program_release(*program);
  *program = made;
  return KD_OK;
}

/* Whether the data are known to be of another model: ONNX before 1.14 made those of this case
 * with an epsilon of 0.01, which its model does not say. */
static bool is_of_another_model(const char *folder, const char *model) {
  const char *name = strrchr(folder, '/');
  char bytes[4096];
  FILE *file = strcmp(name ? name + 1 : folder, "test_adam_multiple") == 0
                   ? fopen(model, "rb")
                   : NULL;
  if (!file) return false;
  size_t size = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  return !memmem(bytes, size, "epsilon", 7);
}

outcome onnx_case_run(const onnx_case *how, const char *folder,
                      extent *out_extent, char *why, size_t size) {
  char model[4096];
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  keel_plan_params params = {.struct_size = sizeof params,
                             .flags = how->eager ? KEEL_PLAN_EAGER : 0,
                             .device = how->device};
  snprintf(model, sizeof model, "%s/model.onnx", folder);
  outcome result =
      verdict(keel_program_load(how->context, model, &program), why, size);
  if (result == PASS)
    result = verdict(override_all(folder, &program), why, size);
  if (result == PASS && how->through)
    result = verdict(go_through(how, &program), why, size);
  if (result == PASS)
    result = verdict(keel_plan_create(program, &params, &plan), why, size);
  if (result == PASS && out_extent) keel_plan_profile(plan, KEEL_PROFILE_OPS);
  if (result == PASS) result = run_sets(how, folder, program, plan, why, size);
  if (result == FAIL && program && keel_program_is_random(program)) {
    snprintf(why, size, "gives random numbers, which no two runtimes share");
    result = SKIP;
  }
  if (result == FAIL && is_of_another_model(folder, model)) {
    snprintf(why, size, "its data are of another epsilon than its model");
    result = SKIP;
  }
  if (result == PASS && out_extent) {
    const places ran = onnx_case_places_of(how, plan);
    *out_extent = extent_of(&ran);
    if (!how->eager) result = check_support(how, program, &ran, why, size);
  }
  keel_plan_release(plan);
  keel_program_release(program);
  return result;
}
