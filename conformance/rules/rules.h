/* rules.h - what several areas use. */
#ifndef KC_RULES_H
#define KC_RULES_H

#include "suite/run.h"
#include "suite/suite.h"

/* A row of an area's table of defects: one of the simulated device; and one that is put in
 * otherwise, or shows at times (KC_AROUND ...). */
#define DEFECT(name_, rule_, text_) DEFECT_AS(name_, rule_, 0, text_)
#define DEFECT_AS(name_, rule_, how_, text_) \
  { .name = #name_, .rule = rule_, .text = text_, .how = how_ }

/* A small piece of everything that the plugin claims: open, memory, copies, a
 * kernel, a stream. That each works is checked, in the running case; what comes
 * out is judged by other rules. */
void kc_smoke(void);

/* One f32 kernel of one input whose output has the input's shape, as an op; the
 * input is made of `count` elements. NULL where the device has none. */
typedef struct kc_unary {
  kc_op op;
  value *in;
  kc_node *node;
  const kd_kernel_def *def;
} kc_unary;
extern const char
    *const kc_unaries[8]; /* the ops that it is looked for among */
bool kc_unary_make(int64_t count, kc_unary *out);
void kc_unary_free(kc_unary *unary);
/* An instance on its input; leaves the case where there is none. */
kc_run *kc_unary_run(const kc_unary *unary);
/* Compares the output of a run of it with what the reference makes of `in`. */
void kc_unary_check(const kc_unary *unary, kc_run *run, const char *what);
/* The same of elements that the rule has copied out itself, and of an input of its own. */
void kc_unary_compare(const kc_unary *unary, const value *in, const void *bytes,
                      const char *what);
/* Runs it on `in`, alone: the bytes of that, and what came out, which is compared. */
void kc_unary_alone(const kc_unary *unary, kc_run *run, const value *in,
                    char *out_in, char *out_want);
/* Leaves the case as unclaimed where the device has no such kernel. */
void kc_unary_need(int64_t count, kc_unary *out);

/* Calls `body` in a case of its own for one working node of each op that the
 * plugin has, `most` at most. takes: which definitions count; NULL: all. */
struct kc_op_case;
typedef void (*kc_on_op)(struct kc_op_case *one, kc_node *node,
                         const kd_kernel_def *def);
void kc_each_op(bool (*takes)(const kd_kernel_def *), kc_on_op body,
                kd_dtype preferred, uint32_t most);

/* The same for the case of an op that scores highest; 0: none that may be taken. */
void kc_each_best(bool (*takes)(const kd_kernel_def *),
                  uint32_t (*score)(const struct kc_op_case *), kc_on_op body,
                  kd_dtype preferred, uint32_t most);

/* Each op, in a case of its own, before the device is closed and when it is open again; with
 * `plugin`, that is closed and opened, too; again.c. */
void kc_ops_again(bool plugin);

/* Whether a text is UTF-8. */
bool kc_utf8(const char *text);

/* Large copies; copy_big.c. */
void kc_copy_big(void);
void kc_copy_over_4_gib(void);

/* Two devices at work at once, where there are two; dev_beside.c. */
void kc_devices_at_once(void);

/* ONNX's stored cases, and whole models, through the host; model.c. */
void kc_onnx_data(void);
void kc_whole_models(void);

/* Runs a helper (helpers.c) in a process of its own, which must end with that status. */
bool kc_helper_ends(const char *name, const char *argument, int wanted,
                    const char *what);

/* Entries of a folder, such as the threads in /proc/self/task. */
uint32_t kc_entries(const char *path);

/* The threads that run now; tasks.c. */
#define KC_TASKS 512u
typedef struct kc_tasks {
  int ids[KC_TASKS];
  uint32_t count;
} kc_tasks;
kc_tasks kc_tasks_now(void);
/* Whether none runs any more, within two seconds, that is not one of these and began in the
 * plugin's library; the names of those that do. A driver's own may go on. */
bool kc_tasks_ended(const kc_tasks *known, char *out_names, size_t capacity);
/* The same of all that are not these, whoever began them: `most` may run. */
bool kc_tasks_few(const kc_tasks *known, uint32_t most, char *out_names,
                  size_t capacity);

/* The rule of threads that enqueue at once; thread_stream.c. */
void kc_streams_at_once(void);

/* A struct that the plugin fills, of `all` bytes with what is behind it: the first `known`
 * are zero, the others marked. Freed at the end of the rule. */
void *kc_bounded(uint32_t struct_size, size_t known, size_t all);
/* Whether all that is behind the first `known` bytes is as it was. */
bool kc_bounded_whole(const void *filled, size_t known, size_t all);

#endif /* KC_RULES_H */
