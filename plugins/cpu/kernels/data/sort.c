/* sort.c - keel::ArgSort: by several keys, the last one first, each by a sort that keeps the
 * order of equal ones. */
#include <stdatomic.h>

#include "families/lines.h"
#include "kernels.h"
#include "keys.h"

typedef struct sort_work {
  const kd_launch *launch;
  lines all;
  bool descending;
  atomic_bool failed; /* for want of memory */
} sort_work;

/* Sorts what `order` names by one of the inputs. */
static void sort_by(const sort_work *work, uint32_t input, int64_t line,
                    cpu_key *keys, cpu_key *room, int64_t *order) {
  const kd_tensor *x = &work->launch->inputs[input];
  int64_t n = work->all.length;
  const char *from =
      (const char *)x->data +
      (size_t)lines_start(&work->all, line) * kd_dtype_size(x->dtype);
  cpu_keys_of(from, x->dtype, work->all.step, n, false, room);
  for (int64_t i = 0; i < n; i++)
    keys[i] = (cpu_key){
        work->descending ? ~room[order[i]].key : room[order[i]].key, order[i]};
  cpu_keys_sort(keys, room, n);
  for (int64_t i = 0; i < n; i++)
    order[i] = keys[i].at;
}

static void sort_lines(void *context, int64_t begin, int64_t end) {
  sort_work *work = context;
  size_t n = (size_t)work->all.length;
  cpu_key *keys = malloc((n * 2 + 1) * sizeof *keys);
  int64_t *order = malloc((n + 1) * sizeof *order);
  if (!keys || !order) atomic_store(&work->failed, true);
  for (int64_t line = begin; keys && order && line < end; line++) {
    int64_t *to = work->launch->outputs[0].data;
    for (size_t i = 0; i < n; i++)
      order[i] = (int64_t)i;
    for (uint32_t k = work->launch->input_count; k-- > 0;)
      sort_by(work, k, line, keys, keys + n, order);
    to += lines_start(&work->all, line);
    for (size_t i = 0; i < n; i++)
      to[(int64_t)i * work->all.step] = order[i];
  }
  free(keys);
  free(order);
}

CPU_KERNEL(cpu_run_arg_sort) {
  const kd_tensor *x = &launch->inputs[0];
  uint32_t axis = axis_of(attr_int(launch, "axis", -1), x->rank);
  sort_work work = {.launch = launch,
                    .all = lines_along(x->dims, x->rank, axis),
                    .descending = attr_int(launch, "descending", 0) != 0};
  cpu_host->parallel_for(cpu_host, kd_elements(x) ? work.all.count : 0,
                         CPU_GRAIN / 8 / (work.all.length + 1) + 1, sort_lines,
                         &work);
  return atomic_load(&work.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "ArgSort: no memory for %lld elements",
                    (long long)work.all.length)
             : KD_OK;
}
