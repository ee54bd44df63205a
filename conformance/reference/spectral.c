/* spectral.c - discrete Fourier transforms and the mel scale. */
#include <math.h>

#include "reference/reference.h"

static const real two_pi = 6.283185307179586476925286766559005768L;

/* A complex sum. */
typedef struct bin {
  ref_sum re, im;
} bin;

/* Adds x e^(-2 pi i k n / size), or its conjugate. */
static void bin_add(bin *b, real re, real im, int64_t kn, int64_t size,
                    bool inverse) {
  real angle = two_pi * (real)(kn % size) / (real)size;
  real c = cosl(angle), s = inverse ? sinl(angle) : -sinl(angle);
  ref_add(&b->re, re * c - im * s);
  ref_add(&b->im, re * s + im * c);
}

/* A fast transform mixes both parts of all terms: the error of each is bounded by
 * what both have in them. */
static void bin_put(value *out, int64_t at, const bin *b, real scale) {
  real spread = ref_spread(&b->re) + ref_spread(&b->im);
  ref_put(out, at, &b->re, scale);
  ref_put(out, at + 1, &b->im, scale);
  if (out->slack) out->slack[at] = out->slack[at + 1] = 8 * spread * scale;
}

/* DFT, opset 20: the last dimension real or complex. Of one side and inverse, bins past
 * the middle are conjugates of those before it, and the result is real. */
static bool run_dft(ref_call *call) {
  const value *in = call->in[0], *length = ref_in(call, 1);
  const value *along = ref_in(call, 2);
  value *out = call->out[0];
  uint32_t axis = ref_axis(along ? (int64_t)along->x[0] : -2, in->rank);
  bool inverse = ref_int(call, "inverse", 0) != 0;
  bool half = inverse && ref_int(call, "onesided", 0);
  int64_t parts = in->dims[in->rank - 1], have = in->dims[axis], inner = 1;
  int64_t bins = out->dims[axis], outer = 1;
  int64_t size = half ? bins : length ? (int64_t)length->x[0] : have;
  for (uint32_t d = 0; d < axis; d++)
    outer *= in->dims[d];
  for (uint32_t d = axis + 1; d + 1 < in->rank; d++)
    inner *= in->dims[d];
  for (int64_t o = 0; o < outer; o++)
    for (int64_t k = 0; k < bins; k++)
      for (int64_t r = 0; r < inner; r++) {
        bin b = {0};
        for (int64_t n = 0; n < size; n++) {
          bool turned = half && 2 * n > size;
          int64_t from = turned ? size - n : n;
          if (from >= have) continue;
          const real *x = in->x + ((o * have + from) * inner + r) * parts;
          real im = parts < 2 || (half && 2 * n % size == 0) ? 0 : x[1];
          bin_add(&b, x[0], turned ? -im : im, k * n, size, inverse);
        }
        int64_t at = (o * bins + k) * inner + r;
        if (half)
          ref_put(out, at, &b.re, 1 / (real)size);
        else
          bin_put(out, at * 2, &b, inverse ? 1 / (real)size : 1);
        if (half && out->slack)
          out->slack[at] = 8 * ref_spread(&b.re) / (real)size;
      }
  return true;
}

/* STFT, opset 17. */
static bool run_stft(ref_call *call) {
  const value *in = call->in[0], *window = ref_in(call, 2);
  value *out = call->out[0];
  int64_t step = (int64_t)call->in[1]->x[0];
  int64_t parts = in->rank == 3 ? in->dims[2] : 1, samples = in->dims[1];
  int64_t frames = out->dims[1], bins = out->dims[2];
  int64_t size = ref_in(call, 3) ? (int64_t)ref_in(call, 3)->x[0]
                 : window        ? window->count
                                 : 0;
  if (size < 1 || (window && window->count != size)) return false;
  for (int64_t i = 0; i < in->dims[0] * frames * bins; i++) {
    int64_t k = i % bins, frame = i / bins % frames, item = i / bins / frames;
    bin b = {0};
    for (int64_t n = 0; n < size; n++) {
      const real *x = in->x + (item * samples + frame * step + n) * parts;
      real w = window ? window->x[n] : 1;
      bin_add(&b, x[0] * w, parts == 2 ? x[1] * w : 0, k * n, size, false);
    }
    bin_put(out, i * 2, &b, 1);
  }
  return true;
}

static real mel_of(real hertz) {
  return 2595 * log10l(1 + hertz / 700);
}

/* MelWeightMatrix, opset 17: triangles between bins of the spectrum. Where an
 * edge falls on a bin, that bin is as likely the one below. */
static bool run_mel(ref_call *call) {
  value *out = call->out[0];
  int64_t mels = (int64_t)call->in[0]->x[0], size = (int64_t)call->in[1]->x[0];
  real rate = call->in[2]->x[0];
  real low = mel_of(call->in[3]->x[0]), high = mel_of(call->in[4]->x[0]);
  real step = (high - low) / (real)(mels + 2);
  int64_t bins = size / 2 + 1, edges[2] = {0, 0}, edge = 0;
  out->ulps = 4;
  for (int64_t i = 0; i < mels + 2; i++) {
    real hertz = 700 * (powl(10, (low + step * (real)i) / 2595) - 1);
    real at = (real)(size + 1) * hertz / rate;
    if (fabsl(at - rintl(at)) < 1e-4L && at != 0) return false;
    edge = (int64_t)floorl(at);
    int64_t from = edges[0], centre = edges[1];
    for (int64_t k = from; i > 1 && k < edge && k < bins; k++) {
      real *x = &out->x[k * mels + i - 2];
      if (k < centre)
        *x = (real)(k - from) / (real)(centre - from);
      else
        *x = (real)(edge - k) / (real)(edge - centre);
    }
    /* the centre itself, also of a triangle without sides */
    if (i > 1 && centre < bins) out->x[centre * mels + i - 2] = 1;
    edges[0] = edges[1];
    edges[1] = edge;
  }
  return true;
}

const ref_op ref_spectral[] = {
    {NULL, "DFT", REF_SUM, 0, run_dft, false},
    {NULL, "STFT", REF_SUM, 0, run_stft, false},
    {NULL, "MelWeightMatrix", REF_ULP, 0, run_mel, false},
};
const uint32_t ref_spectral_count =
    (uint32_t)(sizeof ref_spectral / sizeof *ref_spectral);
