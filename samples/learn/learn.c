/* learn.c - a program with state: fits y = w x + b to points by gradient descent.
 *
 * w and b are variables, which the program is given as inputs; each run is one step, and
 * changes them. Another program reads them, in a run that nobody waits for, on points that
 * are known later.
 *
 * Started by mpirun, it learns on several ranks: each has a part of the points, and all have
 * the same w and b, since the gradients are means over all points.
 *
 * SPDX-License-Identifier: Apache-2.0 */
#include <keel/keel.h>
#include <stdio.h>
#include <stdlib.h>

#define POINTS 8
#define STEPS  200

static keel_link *ranks; /* NULL: this process is alone */

static void need(keel_status status, const char *what) {
  char text[1000];
  if (status == KD_OK) return;
  snprintf(text, sizeof text, "learn: %s: %s", what, keel_message());
  if (ranks) keel_link_abort(ranks, 1, text); /* ends all ranks */
  fprintf(stderr, "%s\n", text);
  exit(1);
}

/* ---- programs ----------------------------------------------------------------- */

static keel_value op(keel_builder *g, const char *name, keel_value a,
                     keel_value b) {
  const keel_value inputs[] = {a, b};
  return keel_builder_op(g, name, NULL, 0, inputs, b == KEEL_ABSENT ? 1 : 2);
}

static keel_value number(keel_context *context, keel_builder *g, float value) {
  keel_tensor *tensor = NULL;
  need(keel_tensor_create(context, KD_F32, 0, NULL, &value, &tensor), "tensor");
  keel_value constant = keel_builder_constant(g, tensor);
  keel_tensor_release(tensor);
  return constant;
}

/* The mean over all points: of this rank's, and then of the ranks', which have equally many. */
static keel_value mean(keel_context *context, keel_builder *g,
                       keel_value member, keel_value x) {
  const keel_attr flat = KEEL_INT("keepdims", 0);
  keel_value own = keel_builder_op(g, "ReduceMean", &flat, 1, &x, 1);
  if (!ranks) return own;
  keel_link_facts facts;
  keel_link_look(ranks, &facts);
  return op(g, "Mul", op(g, "keel::AllReduce", member, own),
            number(context, g, 1 / (float)facts.size));
}

static keel_plan *finish(keel_builder *g) {
  keel_program *program = NULL;
  keel_plan *plan = NULL;
  /* says the first failure of all calls of the builder */
  need(keel_builder_finish(g, &program), "program");
  need(keel_plan_create(program, NULL, &plan), "plan");
  keel_builder_destroy(g);
  keel_program_release(program);
  return plan;
}

/* w, b, x -> w x + b; the variables' values are given back. */
static keel_value line(keel_builder *g, keel_value w, keel_value b,
                       keel_value x, keel_value *out_w, keel_value *out_b) {
  *out_w = op(g, "keel::VariableRead", w, KEEL_ABSENT);
  *out_b = op(g, "keel::VariableRead", b, KEEL_ABSENT);
  return op(g, "Add", op(g, "Mul", *out_w, x), *out_b);
}

/* w, b, x, y, and this rank's handle if there are ranks -> the loss before the step. */
static keel_plan *make_step(keel_context *context) {
  const int64_t any = -1;
  keel_builder *g = NULL;
  keel_value w0 = 0, b0 = 0;
  need(keel_builder_create(context, "step", &g), "builder");
  keel_value w = keel_builder_resource(g, "w");
  keel_value b = keel_builder_resource(g, "b");
  keel_value x = keel_builder_input(g, "x", KD_F32, 1, &any);
  keel_value y = keel_builder_input(g, "y", KD_F32, 1, &any);
  keel_value member = ranks ? keel_builder_resource(g, "member") : KEEL_ABSENT;
  keel_value off = op(g, "Sub", line(g, w, b, x, &w0, &b0), y);
  keel_value rate = number(context, g, 0.2f);
  keel_value gradient = mean(context, g, member, op(g, "Mul", off, x));
  keel_value dw = op(g, "Mul", rate, gradient);
  keel_value db = op(g, "Mul", rate, mean(context, g, member, off));
  op(g, "keel::VariableAssign", w, op(g, "Sub", w0, dw));
  op(g, "keel::VariableAssign", b, op(g, "Sub", b0, db));
  keel_builder_output(g, "loss",
                      mean(context, g, member, op(g, "Mul", off, off)));
  return finish(g);
}

/* w, b, x -> y */
static keel_plan *make_line(keel_context *context) {
  const int64_t any = -1;
  keel_builder *g = NULL;
  keel_value w0 = 0, b0 = 0;
  need(keel_builder_create(context, "line", &g), "builder");
  keel_value w = keel_builder_resource(g, "w");
  keel_value b = keel_builder_resource(g, "b");
  keel_value x = keel_builder_input(g, "x", KD_F32, 1, &any);
  keel_builder_output(g, "y", line(g, w, b, x, &w0, &b0));
  return finish(g);
}

/* ---- values ------------------------------------------------------------------- */

static keel_tensor *floats(keel_context *context, int64_t count,
                           const float *data) {
  keel_tensor *tensor = NULL;
  need(keel_tensor_create(context, KD_F32, 1, &count, data, &tensor), "tensor");
  return tensor;
}

static keel_tensor *variable(keel_context *context, float value) {
  keel_tensor *initial = NULL, *made = NULL;
  need(keel_tensor_create(context, KD_F32, 0, NULL, &value, &initial),
       "tensor");
  need(keel_call(context, "keel::Variable", NULL, 0, &initial, 1, &made, 1),
       "variable");
  keel_tensor_release(initial);
  return made;
}

static float take_float(keel_tensor *tensor) {
  float value = 0;
  need(keel_tensor_read(tensor, &value, sizeof value), "value");
  keel_tensor_release(tensor);
  return value;
}

/* Which points are this rank's: *out_count, from the one returned on. */
static uint32_t share(uint32_t *out_count) {
  keel_link_facts facts = {.size = 1};
  if (ranks) keel_link_look(ranks, &facts);
  if (POINTS % facts.size) {
    char text[100];
    snprintf(text, sizeof text, "learn: %u ranks cannot share %d points evenly",
             facts.size, POINTS);
    keel_link_abort(ranks, 1, text);
  }
  *out_count = POINTS / facts.size;
  return facts.rank * *out_count;
}

int main(void) {
  float x[POINTS], y[POINTS], loss = 0;
  const float far = 10;
  keel_context *context = NULL;
  keel_tensor *result = NULL, *member = NULL;
  need(keel_open(NULL, &context), "open");
  if (keel_link_launched()) {
    need(keel_link_open(context, NULL, &ranks), "ranks");
    need(keel_link_member(ranks, NULL, &member), "member");
  }
  for (int i = 0; i < POINTS; i++) {
    x[i] = (float)i / 2 - 1.75f;
    y[i] = 3 * x[i] - 2;
  }
  uint32_t count = 0, first = share(&count);
  keel_plan *step = make_step(context), *at = make_line(context);
  keel_tensor *in[] = {variable(context, 0), variable(context, 0),
                       floats(context, count, x + first),
                       floats(context, count, y + first), member};

  for (int i = 0; i < STEPS; i++) {
    need(keel_plan_run(step, in, ranks ? 5 : 4, &result, 1), "step");
    loss = take_float(result);
    if (i % 50 == 0 && !first) printf("step %3d: loss %g\n", i, (double)loss);
  }

  /* a run that nobody waits for, on a point that is not known yet */
  keel_tensor *late = NULL, *there = NULL;
  need(keel_tensor_promise(context, &late), "promise");
  keel_tensor *asked[] = {in[0], in[1], late};
  need(keel_plan_begin(at, NULL, asked, 3, &there, 1), "begin");
  keel_tensor *point = floats(context, 1, &far);
  need(keel_tensor_fulfil(late, point), "fulfil");
  need(keel_tensor_wait(there), "wait");
  float got = take_float(there);
  if (!first)
    printf("step %3d: loss %g; at x = %g it says %.3f, and the line is at 28\n",
           STEPS, (double)loss, (double)far, (double)got);

  for (int i = 0; i < 5; i++)
    keel_tensor_release(in[i]);
  keel_tensor_release(late);
  keel_tensor_release(point);
  keel_plan_release(step);
  keel_plan_release(at);
  keel_link_close(ranks);
  keel_close(context);
  return got > 27.9f && got < 28.1f ? 0 : 1;
}
