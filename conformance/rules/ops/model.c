/* model.c - ONNX's stored cases and small whole models, through the host. */
#include <dirent.h>
#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <keel/keel.h>

#include "rules/rules.h"
#include "system/environment.h"
#include "tools/tool.h"

static const char *data_folder(void) {
  static const char *const places[] = {"/usr/share/libonnx-testdata/data",
                                       "/usr/local/share/onnx/data"};
  const char *own = keel_environment("KEEL_ONNX_DATA");
  if (own && access(own, R_OK) == 0) return own;
  for (size_t i = 0; i < KC_COUNT_OF(places); i++)
    if (access(places[i], R_OK) == 0) return places[i];
  return NULL;
}

static keel_context *open_host(void) {
  const char *plugins[1] = {kc.plugin};
  keel_context *context = NULL;
  keel_context_params params = {.struct_size = sizeof params,
                                .flags = KEEL_ONLY_NAMED,
                                .plugins = plugins,
                                .plugin_count = 1,
                                .workers = KEEL_NO_WORKERS};
  if (keel_open(&params, &context) != KD_OK)
    kc_stop("the host can't open the plugin: %s", keel_message());
  if (keel_device_count(context) <= kc.device)
    kc_unclaimed("the host finds no device in the plugin");
  return context;
}

static void run_case(keel_context *context, const char *folder,
                     const char *name) {
  char why[1200] = "";
  onnx_case one = {.context = context,
                   .device = keel_device_at(context, kc.device),
                   .within = {.rtol = 1e-3, .atol = 1e-7}};
  char path[4096];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  outcome result = onnx_case_run(&one, path, NULL, why, sizeof why);
  if (result == SKIP) return;
  kc_check(result == PASS, "%s", why);
}

/* Whether a model holds an op that no device has, without running it, is what
 * the host finds out: such a case is begun, and makes no check. */
void kc_onnx_data(void) {
  static const char *const sets[] = {"node", "pytorch-operator",
                                     "pytorch-converted", "simple"};
  const char *root = data_folder();
  if (!root)
    kc_unclaimed(
        "ONNX's data are not installed (Debian: libonnx-testdata);"
        " KEEL_ONNX_DATA names another folder");
  kc_load();
  keel_context *context = open_host();
  uint32_t number = 0;
  for (size_t s = 0; s < KC_COUNT_OF(sets); s++) {
    char folder[600];
    struct dirent **entries = NULL;
    snprintf(folder, sizeof folder, "%s/%s", root, sets[s]);
    int count = scandir(folder, &entries, NULL, alphasort);
    for (int i = 0; i < count; i++) {
      const char *name = entries[i]->d_name;
      if (name[0] != '.' && (!kc.quick || number++ % 16 == 0) &&
          kc_case("%s", name))
        run_case(context, folder, name);
      free(entries[i]);
    }
    free(entries);
  }
  keel_close(context);
}

/* ---- whole models ------------------------------------------------------------------ */

typedef struct model {
  const char *name;
  void (*run)(keel_context *context);
} model;

static keel_tensor *random_tensor(keel_context *context, uint32_t rank,
                                  const int64_t *dims, kc_random *random,
                                  float scale) {
  keel_tensor *tensor = NULL;
  int64_t count = 1;
  for (uint32_t i = 0; i < rank; i++)
    count *= dims[i];
  float *data = kc_take((uint64_t)count * sizeof *data);
  for (int64_t i = 0; i < count; i++)
    data[i] = scale * (float)((double)(int64_t)kc_next(random) * 0x1p-63);
  keel_status status =
      keel_tensor_create(context, KD_F32, rank, dims, data, &tensor);
  free(data);
  if (status != KD_OK) kc_stop("a tensor: %s", keel_message());
  return tensor;
}

static void lacks(keel_tensor **tensors, size_t count) {
  kc_check(true, " ");
  kc_note("the device lacks an op of it: %s", keel_message());
  for (size_t i = 0; i < count; i++)
    keel_tensor_release(tensors[i]);
}

/* Two layers and a Softmax, by single ops, twice: once on the device, once by
 * the reference; the reference's steps are rounded to f32 as a device's are. */
static void perceptron(keel_context *context) {
  kc_random random = kc_seed();
  int64_t dims[4][2] = {{5, 32}, {32, 48}, {48, 10}, {5, 10}};
  keel_tensor *x = random_tensor(context, 2, dims[0], &random, 1);
  keel_tensor *w = random_tensor(context, 2, dims[1], &random, 0.3f);
  keel_tensor *v = random_tensor(context, 2, dims[2], &random, 0.3f);
  keel_tensor *h = NULL, *r = NULL, *y = NULL, *p = NULL;
  keel_tensor *first[2] = {x, w}, *second[2] = {NULL, v};
  keel_device_push(keel_device_at(context, kc.device));
  bool ran = keel_call(context, "MatMul", NULL, 0, first, 2, &h, 1) == KD_OK &&
             keel_call(context, "Relu", NULL, 0, &h, 1, &r, 1) == KD_OK;
  second[0] = r;
  ran = ran &&
        keel_call(context, "MatMul", NULL, 0, second, 2, &y, 1) == KD_OK &&
        keel_call(context, "Softmax", NULL, 0, &y, 1, &p, 1) == KD_OK;
  keel_device_pop();
  keel_tensor *all[] = {x, w, v, h, r, y, p};
  if (!ran) {
    lacks(all, KC_COUNT_OF(all));
    return;
  }
  float got[50], xs[160], ws[1536], vs[480];
  kc_check(keel_tensor_read(p, got, sizeof got) == KD_OK, "%s", keel_message());
  keel_tensor_read(x, xs, sizeof xs);
  keel_tensor_read(w, ws, sizeof ws);
  keel_tensor_read(v, vs, sizeof vs);
  for (int i = 0; i < 5; i++) {
    double hidden[48], out[10], most = -1e300, sum = 0;
    int best = 0, best_got = 0;
    for (int j = 0; j < 48; j++) {
      hidden[j] = 0;
      for (int k = 0; k < 32; k++)
        hidden[j] += (double)xs[i * 32 + k] * (double)ws[k * 48 + j];
      if (hidden[j] < 0) hidden[j] = 0;
    }
    for (int j = 0; j < 10; j++) {
      out[j] = 0;
      for (int k = 0; k < 48; k++)
        out[j] += hidden[k] * (double)vs[k * 10 + j];
      if (out[j] > most) {
        most = out[j];
        best = j;
      }
    }
    for (int j = 0; j < 10; j++)
      sum += exp(out[j] - most);
    for (int j = 0; j < 10; j++) {
      double want = exp(out[j] - most) / sum;
      kc_check(fabs(got[i * 10 + j] - want) < 1e-5 * (1 + want),
               "row %d, class %d: %.8g, expected %.8g", i, j,
               (double)got[i * 10 + j], want);
      if (got[i * 10 + j] > got[i * 10 + best_got]) best_got = j;
    }
    kc_check(best == best_got, "row %d: the best class is %d, expected %d", i,
             best_got, best);
  }
  for (size_t i = 0; i < KC_COUNT_OF(all); i++)
    keel_tensor_release(all[i]);
}

/* The same through a chain of elementwise ops, long enough to reuse memory. */
static void chain(keel_context *context) {
  static const char *const ops[] = {"Relu", "Abs", "Neg", "Relu"};
  kc_random random = kc_seed();
  int64_t dims[1] = {1000};
  keel_tensor *x = random_tensor(context, 1, dims, &random, 4);
  float want[1000], got[1000];
  keel_tensor_read(x, want, sizeof want);
  keel_device_push(keel_device_at(context, kc.device));
  for (int i = 0; i < 40; i++) {
    keel_tensor *y = NULL;
    if (keel_call(context, ops[i % 3], NULL, 0, &x, 1, &y, 1) != KD_OK) {
      keel_device_pop();
      lacks(&x, 1);
      return;
    }
    for (int k = 0; k < 1000; k++)
      want[k] = i % 3 == 0   ? (want[k] > 0 ? want[k] : 0)
                : i % 3 == 1 ? fabsf(want[k])
                             : -want[k];
    keel_tensor_release(x);
    x = y;
  }
  keel_device_pop();
  kc_check(keel_tensor_read(x, got, sizeof got) == KD_OK, "%s", keel_message());
  for (int k = 0; k < 1000; k++)
    if (got[k] != want[k]) {
      kc_check(false, "element %d is %g, expected %g", k, (double)got[k],
               (double)want[k]);
      break;
    }
  kc_check(true, " ");
  keel_tensor_release(x);
}

void kc_whole_models(void) {
  static const model models[] = {{"perceptron", perceptron}, {"chain", chain}};
  kc_load();
  for (size_t i = 0; i < KC_COUNT_OF(models); i++) {
    if (!kc_case("model=%s", models[i].name)) continue;
    keel_context *context = open_host();
    models[i].run(context);
    keel_close(context);
  }
}
