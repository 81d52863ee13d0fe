/* fourier_pass.h -- the passes of fourier.c for elements of T, WIDTH numbers of REAL: vectors, or one by one what these leave. */
ALWAYS T OF(turn)(const REAL *at, bool are_beside) {
  T all = *at - (T){ 0 };
  return are_beside ? *(const T *)at : all;
}

/* Element v of those that belong together, turned; `to`: its real part and its imaginary part. */
ALWAYS void OF(get)(const struct fourier_pass *p, int v, int64_t from, int64_t turn, bool is_turned, bool are_beside, T to[2]) {
  T a = *(const T *)((const REAL *)p->re + from + v * p->in_step), b = *(const T *)((const REAL *)p->im + from + v * p->in_step);
  to[0] = a, to[1] = b;
  if (!v || !is_turned) return;
  T c = OF(turn)((const REAL *)p->c + (v - 1) * p->l + turn, are_beside);
  T s = OF(turn)((const REAL *)p->s + (v - 1) * p->l + turn, are_beside);
  to[0] = a * c - b * s, to[1] = a * s + b * c;
}

ALWAYS void OF(put)(const struct fourier_pass *p, int u, int64_t at, T re, T im) {
  *(T *)((REAL *)p->to_re + at + u * p->out_step) = re, *(T *)((REAL *)p->to_im + at + u * p->out_step) = im;
}

ALWAYS void OF(four)(const struct fourier_pass *p, int64_t from, int64_t turn, int64_t to, bool is_turned, bool are_beside) {
  T x[4][2];
  _Pragma("GCC unroll 4") for (int v = 0; v < 4; v++) OF(get)(p, v, from, turn, is_turned, are_beside, x[v]);
  T ar = x[0][0] + x[2][0], ai = x[0][1] + x[2][1], br = x[0][0] - x[2][0], bi = x[0][1] - x[2][1];
  T cr = x[1][0] + x[3][0], ci = x[1][1] + x[3][1], dr = x[1][0] - x[3][0], di = x[1][1] - x[3][1];
  OF(put)(p, 0, to, ar + cr, ai + ci), OF(put)(p, 1, to, br + di, bi - dr);
  OF(put)(p, 2, to, ar - cr, ai - ci), OF(put)(p, 3, to, br - di, bi + dr);
}

ALWAYS void OF(two)(const struct fourier_pass *p, int64_t from, int64_t turn, int64_t to, bool is_turned, bool are_beside) {
  T x[2][2];
  OF(get)(p, 0, from, turn, is_turned, are_beside, x[0]), OF(get)(p, 1, from, turn, is_turned, are_beside, x[1]);
  OF(put)(p, 0, to, x[0][0] + x[1][0], x[0][1] + x[1][1]), OF(put)(p, 1, to, x[0][0] - x[1][0], x[0][1] - x[1][1]);
}

/* All groups, from element `first` of each on. */
ALWAYS void OF(groups)(const struct fourier_pass *of, int64_t first, int r, bool is_turned, bool are_beside) {
  struct fourier_pass p = *of; /* which nothing that is written can change */
  for (int64_t g = 0; g < p.groups; g++)
    for (int64_t i = first; i + WIDTH <= p.run; i += WIDTH) {
      int64_t from = g * p.in_group + i, to = g * p.out_group + i, turn = are_beside ? i : g;
      if (r == 4) OF(four)(&p, from, turn, to, is_turned, are_beside);
      else OF(two)(&p, from, turn, to, is_turned, are_beside);
    }
}

/* A sum of r terms, of a prime r; only b stand beside each other, so a group is a k. */
static IN_VECTORS void OF(prime)(const struct fourier_pass *p, int64_t first) {
  int64_t r = p->r, all = r * p->l;
  for (int64_t k = 0; k < p->groups; k++)
    for (int64_t u = 0, by = k; u < r; u++, by += p->l)
      for (int64_t i = first; i + WIDTH <= p->run; i += WIDTH) {
        const REAL *re = (const REAL *)p->re + k * p->in_group + i, *im = (const REAL *)p->im + k * p->in_group + i;
        T a = *(const T *)re, b = *(const T *)im;
        for (int64_t v = 1, j = by; v < r; v++, j += by, j -= j >= all ? all : 0) {
          T c = OF(turn)((const REAL *)p->c + j, false), s = OF(turn)((const REAL *)p->s + j, false);
          T x = *(const T *)(re + v * p->in_step), y = *(const T *)(im + v * p->in_step);
          a = a + (x * c - y * s), b = b + (x * s + y * c);
        }
        int64_t to = k * p->out_group + u * p->out_step + i;
        *(T *)((REAL *)p->to_re + to) = a, *(T *)((REAL *)p->to_im + to) = b;
      }
}

static IN_VECTORS void OF(pass)(const struct fourier_pass *p, int64_t first) {
  if (radix_is_prime(p->r)) OF(prime)(p, first);
  else if (p->r == 4 && p->l == 1) OF(groups)(p, first, 4, false, false);
  else if (p->r == 4 && p->are_beside) OF(groups)(p, first, 4, true, true);
  else if (p->r == 4) OF(groups)(p, first, 4, true, false);
  else if (p->l == 1) OF(groups)(p, first, 2, false, false);
  else if (p->are_beside) OF(groups)(p, first, 2, true, true);
  else OF(groups)(p, first, 2, true, false);
}
#undef T
#undef OF
