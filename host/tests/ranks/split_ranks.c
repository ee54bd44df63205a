/* split_ranks.c - one rank of ranks that share models: `mpirun -n N split_ranks DEVICE PLUGIN...`.
 * Each model is split in each way, run, and compared with what the whole gives on this rank's
 * device: bit by bit where weights are whole numbers. Exit status 1 where something differs. */
#include <keel/split.h>

#include "rank.h"
#include "split_models.h"

enum { PORTS_MOST = 16 };

typedef struct values {
  keel_tensor *list[PORTS_MOST];
  uint32_t count;
} values;

static void release(values *all) {
  for (uint32_t i = 0; i < all->count; i++)
    keel_tensor_release(all->list[i]);
}

/* Inputs of a plan; the rank's handle is one of them. */
static void make_inputs(const keel_plan *plan, keel_device *device,
                        values *out) {
  out->count = keel_plan_input_count(plan);
  for (uint32_t i = 0; i < out->count; i++) {
    keel_port port;
    NEED(keel_plan_input(plan, i, &port));
    NEED(strcmp(port.name, "keel.member")
             ? split_input(context, &port, &out->list[i])
             : keel_link_member(ranks, device, &out->list[i]));
  }
}

static void run(keel_program *program, keel_device *device, values *out) {
  const keel_plan_params params = {.struct_size = sizeof params,
                                   .device = device};
  keel_plan *plan = NULL;
  values in;
  NEED(keel_plan_create(program, &params, &plan));
  make_inputs(plan, device, &in);
  out->count = keel_plan_output_count(plan);
  NEED(keel_plan_run(plan, in.list, in.count, out->list, out->count));
  for (uint32_t i = 0; i < out->count; i++)
    NEED(keel_tensor_wait(out->list[i]));
  release(&in);
  keel_plan_release(plan);
}

/* How far values are from those that are right, of the largest of these. */
static double distance(keel_tensor *got, keel_tensor *want, bool *out_bits) {
  uint64_t size = keel_tensor_size(want);
  float *a = malloc(size + 1), *b = malloc(size + 1);
  double most = 0, far = 0;
  if (!a || !b) need(KD_OUT_OF_MEMORY, "a comparison");
  if (keel_tensor_size(got) != size) need(KD_INTERNAL, "the size of an output");
  NEED(keel_tensor_read(got, a, size));
  NEED(keel_tensor_read(want, b, size));
  *out_bits &= !memcmp(a, b, size);
  for (uint64_t i = 0; i < size / sizeof *a; i++) {
    most = fmax(most, fabs((double)b[i]));
    far = fmax(far, fabs((double)a[i] - (double)b[i]));
  }
  free(a);
  free(b);
  return most > 0 ? far / most : far;
}

static void check(size_t model, uint32_t kind, bool real, keel_device *device) {
  static const char *const kinds[] = {"data", "tensor", "pipe"};
  const keel_split_params params = {.struct_size = sizeof params,
                                    .kind = kind,
                                    .rank = facts.rank,
                                    .size = facts.size};
  keel_program *whole = NULL, *own = NULL;
  keel_split_facts split;
  values want, got;
  char text[300];
  bool bits = true;
  double far = 0;
  NEED(split_model(context, model, real, &whole));
  NEED(keel_program_split(whole, &params, &own, &split));
  NEED(keel_link_check(ranks, own));
  run(whole, device, &want);
  run(own, device, &got);
  for (uint32_t i = 0; i < want.count; i++)
    far = fmax(far, distance(got.list[i], want.list[i], &bits));
  snprintf(text, sizeof text, "%s by %s, %s: %.2g away",
           split_models[model].name, kinds[kind], real ? "real" : "whole", far);
  if (real ? far > 1e-5 : !bits) keel_link_abort(ranks, 1, text);
  if (!facts.rank)
    printf("%s, %u exchanges, weights %.3f\n", text, (unsigned)split.exchanges,
           (double)split.weights_here / (double)split.weights);
  release(&want);
  release(&got);
  keel_program_release(own);
  keel_program_release(whole);
}

int main(int count, char **words) {
  keel_device *device = NULL;
  if (count < 3) return 2;
  const keel_context_params params = {
      .struct_size = sizeof params,
      .flags = KEEL_ONLY_NAMED,
      .plugins = (const char *const *)(words + 2),
      .plugin_count = (uint32_t)count - 2,
      .workers = 1};
  NEED(keel_open(&params, &context));
  NEED(keel_device_find(context, words[1], &device));
  NEED(keel_link_open(context, NULL, &ranks));
  keel_link_look(ranks, &facts);
  for (int real = 0; real < 2; real++) {
    check(0, KEEL_SPLIT_DATA, real, device);
    check(0, KEEL_SPLIT_TENSOR, real, device);
    check(0, KEEL_SPLIT_PIPE, real, device);
    check(1, KEEL_SPLIT_DATA, real, device);
    check(1, KEEL_SPLIT_TENSOR, real, device);
    check(1, KEEL_SPLIT_PIPE, real, device);
    check(2, KEEL_SPLIT_TENSOR, real, device);
    check(2, KEEL_SPLIT_PIPE, real, device);
    check(3, KEEL_SPLIT_TENSOR, real, device);
    check(3, KEEL_SPLIT_PIPE, real, device);
  }
  keel_link_close(ranks);
  keel_close(context);
  return 0;
}
