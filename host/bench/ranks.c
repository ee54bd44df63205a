/* ranks.c - the models of host/bench/ranks.sh. */
#include <string.h>

#include "learning.h"
#include "onnx.h"

static void path_in(const char *folder, const char *name, char path[4096]) {
  snprintf(path, 4096, "%s/%s", folder, name);
}

/* One op of two values, to see how fast the machine is. */
static void write_op(keel_context *context, const char *name, int64_t rows,
                     int64_t columns, const char *path) {
  const int64_t dims[] = {rows, columns};
  keel_builder *builder = NULL;
  keel_program *program = NULL;
  keel_value x[2];
  bench_need(keel_builder_create(context, name, &builder));
  x[0] = keel_builder_input(builder, "x", KD_F32, 2, dims);
  x[1] = keel_builder_input(builder, "y", KD_F32, 2, dims);
  bench_need(keel_builder_output(
      builder, "z", keel_builder_op(builder, name, NULL, 0, x, 2)));
  bench_need(keel_builder_finish(builder, &program));
  keel_builder_destroy(builder);
  bench_need(keel_program_save(program, path, 0));
  keel_program_release(program);
}

static void write_models(const char *folder) {
  char path[4096];
  keel_context *context = NULL;
  bench_need(keel_open(NULL, &context));
  path_in(folder, "layers.onnx", path);
  model_bert_large(path, 2);
  path_in(folder, "images.onnx", path);
  model_resnet50_of(path, -1);
  path_in(folder, "step.keel", path);
  keel_program *step = learning_step(context, 8);
  bench_need(keel_program_save(step, path, 0));
  keel_program_release(step);
  path_in(folder, "product.keel", path);
  write_op(context, "MatMul", 1024, 1024, path);
  path_in(folder, "sum.keel", path);
  write_op(context, "Add", 4096, 4096, path);
  keel_close(context);
}

int main(int argc, char **argv) {
  if (argc == 3 && !strcmp(argv[1], "models")) {
    write_models(argv[2]);
    return 0;
  }
  fprintf(stderr, "usage: ranks models FOLDER\n");
  return 2;
}
