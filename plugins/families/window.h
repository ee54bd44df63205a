/* window.h - the geometry of convolutions and pooling, from a node's
 * attributes. No device code. */
#ifndef KEEL_FAMILIES_WINDOW_H
#define KEEL_FAMILIES_WINDOW_H

#include <kd/kd.h>
#include <string.h>

#define WINDOW_SPACE 12 /* spatial dimensions at most; oneDNN wants 12 */

typedef struct window {
  int space;
  int64_t kernel[WINDOW_SPACE], stride[WINDOW_SPACE], dilation[WINDOW_SPACE];
  int64_t begin[WINDOW_SPACE], end[WINDOW_SPACE]; /* padding */
  int64_t in[WINDOW_SPACE], out[WINDOW_SPACE];    /* sizes */
} window;

static inline void window_list(const kd_host *host, const kd_node *node,
                               const char *name, int count, int64_t *values) {
  const int64_t *given = NULL;
  int64_t size = host->node->attr_ints(node, name, &given);
  for (int i = 0; i < count; i++)
    values[i] = i < size ? given[i] : 1;
}

/* Padding of one dimension so that the windows cover `cover` elements. */
static inline void window_same(window *w, int i, int64_t cover, int64_t count,
                               int lower) {
  int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1;
  int64_t pad = (count - 1) * w->stride[i] + span - cover;
  if (pad < 0) pad = 0;
  w->begin[i] = lower ? pad - pad / 2 : pad / 2;
  w->end[i] = pad - w->begin[i];
}

/* Reads a node's window. dims are N,C,spatial of input and output; kernel is
 * the weights' window, or NULL: the attribute says. `transposed`: the padding
 * belongs to the output. Returns 0 where there are too many dimensions. */
static inline int window_read(const kd_host *host, const kd_node *node,
                              const kd_tensor *input, const kd_tensor *output,
                              const int64_t *kernel, int transposed,
                              window *w) {
  const int64_t *pads = NULL;
  if (input->rank < 2 || input->rank - 2 > WINDOW_SPACE) return 0;
  w->space = (int)input->rank - 2;
  window_list(host, node, "kernel_shape", w->space, w->kernel);
  window_list(host, node, "strides", w->space, w->stride);
  window_list(host, node, "dilations", w->space, w->dilation);
  int64_t count = host->node->attr_ints(node, "pads", &pads);
  const char *mode = host->node->attr_string(node, "auto_pad", "NOTSET");
  for (int i = 0; i < w->space; i++) {
    if (kernel) w->kernel[i] = kernel[i];
    w->in[i] = input->dims[i + 2];
    w->out[i] = output->dims[i + 2];
    w->begin[i] = i < count ? pads[i] : 0;
    w->end[i] = i + w->space < count ? pads[i + w->space] : 0;
    if (!strcmp(mode, "VALID"))
      w->begin[i] = w->end[i] = 0;
    else if (!strncmp(mode, "SAME", 4) && !transposed)
      window_same(w, i, w->in[i], w->out[i], !strcmp(mode, "SAME_LOWER"));
    else if (!strncmp(mode, "SAME", 4))
      window_same(w, i, w->out[i], w->in[i], !strcmp(mode, "SAME_LOWER"));
  }
  return 1;
}

static inline void window_move(window *w, int from, int to) {
  w->kernel[to] = w->kernel[from];
  w->stride[to] = w->stride[from];
  w->dilation[to] = w->dilation[from];
  w->begin[to] = w->begin[from];
  w->end[to] = w->end[from];
  w->in[to] = w->in[from];
  w->out[to] = w->out[from];
}

/* One tap for each element of dimension i, in steps of 1. */
static inline int window_passes(const window *w, int i) {
  return w->kernel[i] == 1 && w->in[i] == w->out[i] && !w->begin[i] &&
         !w->end[i] && (w->stride[i] == 1 || w->in[i] == 1);
}

/* Writes the same window with fewer dimensions, so that loops over the last one are long: lines that
 * are given as planes of one column become lines, and so do planes of few columns (less than
 * `narrow`) whose windows are one column wide, as taps that are a row apart. Element i of the flat
 * input and output stays where it is. At least one dimension is left. */
static inline void window_fold(window *w, int64_t narrow) {
  int kept = 0, left = w->space;
  for (int i = 0; i < w->space; i++) {
    if (w->in[i] == 1 && window_passes(w, i) && left > 1)
      left--;
    else
      window_move(w, i, kept++);
  }
  for (w->space = kept; w->space > 1; w->space--) {
    int last = w->space - 1, row = last - 1;
    int64_t columns = w->in[last];
    if (columns >= narrow || !window_passes(w, last) || w->stride[row] != 1 ||
        w->kernel[row] == 1) /* one tap for each element is a product */
      return;
    w->dilation[row] *= columns;
    w->begin[row] *= columns;
    w->end[row] *= columns;
    w->in[row] *= columns;
    w->out[row] *= columns;
  }
}

#endif /* KEEL_FAMILIES_WINDOW_H */
