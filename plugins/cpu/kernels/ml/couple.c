/* couple.c - keel::Couple: probabilities of classes by those of their pairs (Wu, Lin and Weng,
 * "Probability estimates for multi-class classification by pairwise coupling", 2004, the second
 * approach). Steps and the rule to stop are libsvm's, so that its numbers come out. */
#include <stdatomic.h>

#include "kernels.h"

typedef struct couple_work {
  const kd_tensor *x, *y;
  int64_t classes;
  atomic_bool failed;
} couple_work;

/* Where a row is computed; q is [classes, classes]. */
typedef struct coupling {
  int64_t classes;
  double *q, *p, *qp;
} coupling;

/* r[i][j] and r[j][i] = 1 - r[i][j] of all pairs; q keeps what is asked of them. */
static void read_pairs(const coupling *c, const kd_tensor *x, int64_t row) {
  int64_t k = c->classes, at = row * (k * (k - 1) / 2);
  for (int64_t i = 0; i < k; i++) {
    c->q[i * k + i] = 0;
    c->p[i] = 1 / (double)k;
  }
  for (int64_t i = 0; i < k; i++)
    for (int64_t j = i + 1; j < k; j++) {
      double r = cpu_get(x->data, x->dtype, at++), s = 1 - r;
      c->q[i * k + i] += s * s;
      c->q[j * k + j] += r * r;
      c->q[i * k + j] = c->q[j * k + i] = -r * s;
    }
}

/* Moves p[t] to its best, and all others so that they come to 1; returns p'Qp. */
static double improve(const coupling *c, int64_t t, double pqp) {
  int64_t k = c->classes;
  double own = c->q[t * k + t], by = (pqp - c->qp[t]) / own;
  c->p[t] += by;
  pqp = (pqp + by * (by * own + 2 * c->qp[t])) / (1 + by) / (1 + by);
  for (int64_t j = 0; j < k; j++) {
    c->qp[j] = (c->qp[j] + by * c->q[t * k + j]) / (1 + by);
    c->p[j] /= 1 + by;
  }
  return pqp;
}

static void solve(const coupling *c) {
  int64_t k = c->classes, rounds = k > 100 ? k : 100;
  for (int64_t round = 0; round < rounds; round++) {
    double pqp = 0, worst = 0;
    for (int64_t t = 0; t < k; t++) {
      c->qp[t] = 0;
      for (int64_t j = 0; j < k; j++)
        c->qp[t] += c->q[t * k + j] * c->p[j];
      pqp += c->p[t] * c->qp[t];
    }
    for (int64_t t = 0; t < k; t++)
      worst = fmax(worst, fabs(c->qp[t] - pqp));
    if (worst < 0.005 / (double)k) return;
    for (int64_t t = 0; t < k; t++)
      pqp = improve(c, t, pqp);
  }
}

static void couple_rows(void *context, int64_t begin, int64_t end) {
  couple_work *w = context;
  int64_t k = w->classes;
  double *room = malloc((size_t)(k * k + 2 * k) * sizeof *room);
  if (!room) {
    atomic_store(&w->failed, true);
    return;
  }
  const coupling c = {k, room, room + k * k, room + k * k + k};
  for (int64_t row = begin; row < end; row++) {
    read_pairs(&c, w->x, row);
    solve(&c);
    for (int64_t i = 0; i < k; i++)
      cpu_set(w->y->data, w->y->dtype, row * k + i, c.p[i]);
  }
  free(room);
}

CPU_KERNEL(cpu_run_couple) {
  couple_work w = {.x = &launch->inputs[0],
                   .y = &launch->outputs[0],
                   .classes = attr_int(launch, "classes", 2)};
  cpu_host->parallel_for(cpu_host, w.x->dims[0],
                         CPU_GRAIN / (w.classes * w.classes * 8) + 1,
                         couple_rows, &w);
  return atomic_load(&w.failed)
             ? FAIL(KD_OUT_OF_MEMORY, "no memory for %lld classes",
                    (long long)w.classes)
             : KD_OK;
}
