/* columns.h - what a convolution's windows see, as the columns of a matrix (im2col). */
#ifndef KEEL_CPU_COLUMNS_H
#define KEEL_CPU_COLUMNS_H

#include "cpu.h"
#include "families/window.h"

/* Copies what output positions [from, to) see of `channels` planes x into columns: rows
 * are (channel, position in the window), to - from elements each, of `size` bytes;
 * what lies in the padding is zero. */
void cpu_columns(const window *w, const char *x, int64_t channels, size_t size,
                 int64_t from, int64_t to, char *columns);

/* The way back: adds columns of all output positions to the planes, f32 or f64. */
void cpu_columns_add(const window *w, char *x, int64_t channels, kd_dtype dtype,
                     const char *columns);

#endif /* KEEL_CPU_COLUMNS_H */
