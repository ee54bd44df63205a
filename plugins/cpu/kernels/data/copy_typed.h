/* copy_typed.h - copy.c's planes for elements of type T: TYPE is their bytes, which NAMED(x)
 * adds to names, as in plane_4. */

/* to[j * tj + i] = from[j + i * si]: squares of eight, so that whole parts of lines of the
 * cache are read and written. */
static void NAMED(turn)(T *to, int64_t tj, const T *from, int64_t si, int64_t m,
                        int64_t n) {
  int64_t rows = m / EIGHT * EIGHT, columns = n / EIGHT * EIGHT;
  for (int64_t i0 = 0; i0 < columns; i0 += NEAR)
    for (int64_t j = 0; j < rows; j += EIGHT)
      for (int64_t i = i0; i < columns && i < i0 + NEAR; i += EIGHT)
        NAMED(square)(to + j * tj + i, tj, from + j + i * si, si);
  for (int64_t j = 0; j < rows; j++)
    for (int64_t i = columns; i < n; i++)
      to[j * tj + i] = from[j + i * si];
  for (int64_t j = rows; j < m; j++)
    for (int64_t i = 0; i < n; i++)
      to[j * tj + i] = from[j + i * si];
}

/* n elements of each of N rows, taken apart from tuples of N. */
#define APART_BY(N)                       \
  if (m == N && si == N) {                \
    for (int64_t i = 0; i < n; i++)       \
      for (int j = 0; j < N; j++)         \
        to[j * tj + i] = from[i * N + j]; \
    return;                               \
  }
/* and put together into tuples */
#define TOGETHER(N)                       \
  if (n == N && tj == N) {                \
    for (int64_t j = 0; j < m; j++)       \
      for (int i = 0; i < N; i++)         \
        to[j * N + i] = from[j + i * si]; \
    return;                               \
  }

static void NAMED(plane)(void *target, int64_t tj, int64_t ti,
                         const void *source, int64_t sj, int64_t si, int64_t m,
                         int64_t n) {
  T *to = target;
  const T *from = source;
  if (ti == 1 && sj == 1 && si != 1 && m > 1) {
    APART_BY(2)
    APART_BY(3)
    APART_BY(4)
    TOGETHER(2)
    TOGETHER(3)
    TOGETHER(4)
    NAMED(turn)(to, tj, from, si, m, n);
    return;
  }
  if (ti == 1 && si == 1 && sj == 0 && tj == n && n * m > 0) {
    /* what is there serves for what is not, as far as it stays near */
    memcpy(to, from, (size_t)n * sizeof(T));
    int64_t have = n, near = n > NEAR ? n : NEAR / n * n;
    for (int64_t step; have < n * m; have += step) {
      step = have < near ? have : near;
      step = step < n * m - have ? step : n * m - have;
      memcpy(to + have, to, (size_t)step * sizeof(T));
    }
    return;
  }
  for (int64_t j = 0; j < m; j++, to += tj, from += sj) {
    if (ti == 1 && si == 1 && n * (int64_t)sizeof(T) >= LONG)
      memcpy(to, from, (size_t)n * sizeof(T));
    else if (ti == 1 && si == 1)
      for (int64_t i = 0; i < n; i++)
        to[i] = from[i];
    else if (ti == 1 && si == 0)
      for (int64_t i = 0; i < n; i++)
        to[i] = *from;
    else if (ti == 1 && si == 2)
      for (int64_t i = 0; i < n; i++)
        to[i] = from[2 * i];
    else
      for (int64_t i = 0; i < n; i++)
        to[i * ti] = from[i * si];
  }
}

#undef APART_BY
#undef TOGETHER
