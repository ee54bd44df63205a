/* rules.c - the list of areas, and what several of them use. */
#include "rules/rules.h"

#include <dirent.h>

#include "rules/ops/cases.h"

extern const kc_area kc_area_load, kc_area_abi, kc_area_dev, kc_area_mem,
    kc_area_copy, kc_area_stream, kc_area_event, kc_area_kernel, kc_area_op,
    kc_area_own, kc_area_err, kc_area_thread, kc_area_life, kc_area_state,
    kc_area_robust, kc_area_host, kc_area_capture, kc_area_region, kc_area_prof,
    kc_area_peer, kc_area_group, kc_area_perf, kc_area_option, kc_area_layout,
    kc_area_native;

const kc_area *const kc_areas[] = {
    &kc_area_load,   &kc_area_option, &kc_area_abi,     &kc_area_dev,
    &kc_area_mem,    &kc_area_copy,   &kc_area_stream,  &kc_area_event,
    &kc_area_kernel, &kc_area_op,     &kc_area_layout,  &kc_area_own,
    &kc_area_err,    &kc_area_thread, &kc_area_life,    &kc_area_state,
    &kc_area_robust, &kc_area_host,   &kc_area_capture, &kc_area_region,
    &kc_area_prof,   &kc_area_peer,   &kc_area_group,   &kc_area_native,
    &kc_area_perf};
const uint32_t kc_area_count = KC_COUNT_OF(kc_areas);

const kc_rule *kc_rule_at(uint32_t index) {
  for (uint32_t i = 0; i < kc_area_count; i++) {
    if (index < kc_areas[i]->count) return &kc_areas[i]->rules[index];
    index -= kc_areas[i]->count;
  }
  return NULL;
}

const kc_defect *kc_defect_at(uint32_t index) {
  for (uint32_t i = 0; i < kc_area_count; i++) {
    if (index < kc_areas[i]->defect_count) return &kc_areas[i]->defects[index];
    index -= kc_areas[i]->defect_count;
  }
  return NULL;
}

uint32_t kc_defect_count(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < kc_area_count; i++)
    count += kc_areas[i]->defect_count;
  return count;
}

uint32_t kc_rule_count(void) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < kc_area_count; i++)
    count += kc_areas[i]->count;
  return count;
}

const kc_rule *kc_rule_find(const char *id) {
  const kc_rule *rule = NULL;
  for (uint32_t i = 0; (rule = kc_rule_at(i)); i++)
    if (!strcmp(rule->id, id)) return rule;
  return NULL;
}

bool kc_rule_soaks(const kc_rule *rule) {
  static const char *const begins[] = {
      "thread.",        "stream.",   "event.",
      "capture.",       "peer.",     "kernel.concurrent",
      "region.threads", "mem.churn", "dev.two-devices"};
  bool watched = (rule->flags & (KC_WATCHED | KC_ALONE | KC_CLOSED)) != 0;
  for (size_t i = 0; i < KC_COUNT_OF(begins) && !watched; i++)
    if (!strncmp(rule->id, begins[i], strlen(begins[i]))) return true;
  return false;
}

const char *kc_severity_name(kc_severity severity) {
  static const char *const names[] = {"must", "should", "information"};
  return names[severity];
}

const char *kc_level_name(kc_level level) {
  static const char *const names[KC_LEVEL_COUNT] = {
      "core",    "async", "replay",     "compile",
      "profile", "peer",  "collective", "external"};
  return level < KC_LEVEL_COUNT ? names[level] : "?";
}

/* ---- a kernel to try things on ------------------------------------------------------ */

const char *const kc_unaries[8] = {"Relu", "Abs",  "Neg",     "Exp",
                                   "Tanh", "Sqrt", "Sigmoid", "Floor"};

bool kc_unary_make(int64_t count, kc_unary *out) {
  kc_random random = kc_seed();
  memset(out, 0, sizeof *out);
  out->in = kc_floats(1, &count, &random);
  for (size_t i = 0; i < KC_COUNT_OF(kc_unaries); i++) {
    out->op = (kc_op){
        .name = kc_unaries[i], .in = {out->in}, .in_count = 1, .out_count = 1};
    out->node = kc_node_make(&out->op, NULL, 0);
    out->def = out->node ? kc_def_for(out->node) : NULL;
    if (out->def) return true;
    kc_node_free(out->node);
  }
  value_free(out->in);
  return false;
}

void kc_unary_free(kc_unary *unary) {
  kc_node_free(unary->node);
  value_free(unary->in);
}

void kc_unary_need(int64_t count, kc_unary *out) {
  if (!kc_unary_make(count, out))
    kc_unclaimed(
        "the device has no f32 kernel of Relu, Abs, Neg, Exp, Tanh,"
        " Sqrt, Sigmoid or Floor to try it with");
}

kc_run *kc_unary_run(const kc_unary *unary) {
  return kc_run_of(unary->node, unary->def, &unary->op, &kc_plain);
}

void kc_unary_check(const kc_unary *unary, kc_run *run, const char *what) {
  kc_run_check(run, &unary->op, unary->node, what);
}

void kc_unary_compare(const kc_unary *unary, const value *in, const void *bytes,
                      const char *what) {
  kc_op op = unary->op;
  value *want[KC_PORTS] = {0}, *got = value_make(KD_F32, in->rank, in->dims);
  numerics within = kc_numerics(unary->def, KD_F32);
  op.in[0] = in;
  value_load(got, bytes);
  if (kc_reference(&op, unary->node, want))
    kc_compare(want[0], got, &within, what);
  kc_values_free(want, 1);
  value_free(got);
}

void kc_unary_alone(const kc_unary *unary, kc_run *run, const value *in,
                    char *out_in, char *out_want) {
  kc_op op = unary->op;
  op.in[0] = in;
  kc_run_refill(run, &op);
  kc_ok(kc_run_now(run), "run");
  value_store(in, out_in);
  kc_read(run->out_buffers[0], 0, out_want, value_size(in));
  kc_unary_compare(unary, in, out_want, "the output of a launch alone");
}

/* ---- structs that the plugin fills ------------------------------------------------------ */

#define MARK 0x5a

void *kc_bounded(uint32_t struct_size, size_t known, size_t all) {
  void *made = kc_lend(all);
  memset(made, MARK, all);
  memset(made, 0, known);
  memcpy(made, &struct_size, sizeof struct_size);
  return made;
}

bool kc_bounded_whole(const void *filled, size_t known, size_t all) {
  const unsigned char *bytes = filled;
  bool whole = true;
  for (size_t k = known; k < all; k++)
    whole &= bytes[k] == MARK;
  return whole;
}

/* ---- the process ---------------------------------------------------------------------- */

uint32_t kc_entries(const char *path) {
  uint32_t count = 0;
  DIR *folder = opendir(path);
  struct dirent *entry = NULL;
  while (folder && (entry = readdir(folder)))
    count += entry->d_name[0] != '.';
  if (folder) closedir(folder);
  return count;
}

/* ---- one case of each op ---------------------------------------------------------------- */

/* Calls `body`, where it is not NULL, with a case of an op in a type, where a kernel takes
 * it; whether one does. */
static bool case_taken(const kd_kernel_def *def, uint32_t c, kd_dtype dtype,
                       uint32_t (*score)(const kc_op_case *), kc_on_op body,
                       uint32_t *out_score) {
  kc_random random = {c + 77};
  kc_op_case one;
  if (!kc_case_make(def->domain, def->op, c, dtype, KC_PROBE_INTS, &random,
                    &one))
    return false;
  const value *in = one.op.in_count ? one.op.in[0] : NULL;
  bool small =
      c + 3 < kc_case_count(def->domain, def->op) && in && in->count < 4;
  *out_score = score ? score(&one) : 1;
  kc_node *node = in && !small && in->count > 0 && *out_score
                      ? kc_node_make(&one.op, NULL, 0)
                      : NULL;
  const kd_kernel_def *found = node ? kc_def_for(node) : NULL;
  if (found && body && kc_case("op=%s,dtype=%s", def->op, kd_dtype_name(dtype)))
    body(&one, node, found);
  kc_node_free(node);
  kc_case_free(&one);
  return found != NULL;
}

/* The first case of an op that has a kernel, or the one of the highest score. */
static bool op_case(const kd_kernel_def *def, kd_dtype preferred,
                    uint32_t (*score)(const kc_op_case *), kc_on_op body) {
  const kd_dtype types[] = {preferred, KD_F32, KD_I64, KD_U8,
                            KD_BOOL,   KD_I32, KD_F16};
  uint32_t count = kc_case_count(def->domain, def->op), most = 0, now = 0,
           at = 0;
  kd_dtype dtype = KD_NONE;
  for (uint32_t c = 0; c < count; c++)
    for (size_t t = 0; t < KC_COUNT_OF(types); t++) {
      if (!case_taken(def, c, types[t], score, score ? NULL : body, &now))
        continue;
      if (!score) return true; /* it was asked once: answers may change */
      if (now > most) {
        most = now;
        at = c;
        dtype = types[t];
      }
      break;
    }
  return most && case_taken(def, at, dtype, score, body, &now);
}

void kc_each_best(bool (*takes)(const kd_kernel_def *),
                  uint32_t (*score)(const kc_op_case *), kc_on_op body,
                  kd_dtype preferred, uint32_t most) {
  uint32_t done = 0;
  kc_device();
  for (uint32_t d = 0; d < kp.kernel_count && done < most; d++) {
    const kd_kernel_def *def = &kp.kernels[d];
    bool again = false;
    for (uint32_t i = 0; i < d; i++)
      again |= !strcmp(kp.kernels[i].op, def->op);
    if (takes && !takes(def)) continue;
    if (again || (kc.op && strcmp(kc.op, def->op) != 0)) continue;
    done += op_case(def, preferred, score, body);
  }
}

void kc_each_op(bool (*takes)(const kd_kernel_def *), kc_on_op body,
                kd_dtype preferred, uint32_t most) {
  kc_each_best(takes, NULL, body, preferred, most);
}

/* ---- a bit of everything ------------------------------------------------------------- */

void kc_smoke(void) {
  kc_check(kc_device_count() > 0, "the plugin has no device");
  kc_buffer *buffer = kc_buffer_make(999);
  kc_round_trip(buffer, 3);
  kc_buffer_free(buffer);
  kc_unary unary;
  if (kc_unary_make(100, &unary)) {
    kc_run *run = kc_unary_run(&unary);
    kc_ok(kc_run_now(run), unary.op.name);
    kc_run_free(run);
    kc_unary_free(&unary);
  }
  if (kc_claims(KC_ASYNC)) {
    kd_stream *stream = kc_stream_make(kc_device());
    kc_ok(kc_finish(stream), "waiting for an empty stream");
    kc_stream_free(stream);
  }
}
