/* onnx.h - writes ONNX files, as far as the benchmarks' models need it.
 *
 * Format: onnx.proto of ONNX 1.12 (ModelProto), in protobuf's wire format. */
#ifndef BENCH_ONNX_H
#define BENCH_ONNX_H

#include <stdint.h>

/* The name of a value. */
typedef struct onnx_name {
  char text[32];
} onnx_name;

/* Starts a model; one at a time. */
void onnx_begin(void);

/* An input of f32; a dimension of -1 is open. */
onnx_name onnx_input(uint32_t rank, const int64_t *dims);

/* A weight: numbers around `mean`, up to `range` away. */
onnx_name onnx_weight(uint32_t rank, const int64_t *dims, float mean,
                      float range);
onnx_name onnx_longs(uint32_t count, const int64_t *values);

/* A node with one output; inputs end at the first NULL of the array. Attributes are
 * like "axis=1 pads=1,1,1,1". */
onnx_name onnx_node(const char *op, const onnx_name *const *inputs,
                    const char *attrs);

/* Ends it: the model gives `output`. Writes the file, or ends the program. */
void onnx_finish(onnx_name output, const char *path);

/* ---- models: models.c ------------------------------------------------------------ */

/* ResNet-50 v1.5 (He et al., CVPR 2016), MobileNetV2 (Sandler et al., CVPR 2018), and
 * one layer of BERT-base (Devlin et al., NAACL 2019) over 128 words; batch 1, with
 * random weights. */
void model_resnet50(const char *path);
void model_mobilenet(const char *path);
void model_bert_layer(const char *path);
/* The same over 8 words, or over any number. */
void model_bert_short(const char *path);
void model_bert_open(const char *path);

/* Of a batch; -1: its size, "open", is open. */
void model_resnet50_of(const char *path, int64_t batch);
/* Layers of BERT-large over 128 words. */
void model_bert_large(const char *path, int layers);

#endif /* BENCH_ONNX_H */
