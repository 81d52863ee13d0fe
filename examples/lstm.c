/* lstm.c -- lstm [picture.svg]: a network with a memory learns to write, a letter at a time.
 *
 * The idiom: one cell, two loops. To learn, it is handed the letters one by one, and the gradient goes back through all
 * of them; to write, it carries its own last letter, drawn with noise that comes as a sequence. */
#include <weft_sugar.h>
#include "adam.h"
#include "text.h"

enum { BATCH = 16, LENGTH = 64, STEPS = 800, CORPUS = 100000, N = 5 };
static const int64_t dims[N][2] = { { LETTERS, 4 * CELLS }, { CELLS, 4 * CELLS }, { 1, 4 * CELLS }, { CELLS, LETTERS },
                                    { 1, LETTERS } };

static weft_array *one_hot(weft_array *i) {
  return weft_cast(weft_eq(weft_unsqueeze(i, -1), weft_arange(WEFT_I32, 0, LETTERS, 1)), WEFT_F32);
}

/* Letters x [n,LETTERS], output h and memory c [n,CELLS] of the last step -> those of this one. */
static void cell(weft_array *const p[], weft_array *x, weft_array **h, weft_array **c) {
  weft_array *gate[4], *z = weft_add(weft_add(weft_matmul(x, p[0]), weft_matmul(*h, p[1])), p[2]);
  weft_split(z, 1, 4, gate);
  *c = weft_add(weft_mul(weft_sigmoid(weft_add(gate[0], 1)), *c), weft_mul(weft_sigmoid(gate[1]), weft_tanh(gate[2])));
  *h = weft_mul(weft_sigmoid(gate[3]), weft_tanh(*c));
}

/* The mean surprise at the letters of text [LENGTH+1,BATCH], in nats. */
static weft_array *surprise(weft_array *const p[], weft_array *text) {
  weft_array *none = weft_full(WEFT_F32, WEFT_DIMS(BATCH, CELLS), 0);
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *x = weft_loop_each(loop, one_hot(weft_slice(text, 0, 0, LENGTH, 1)));
  weft_array *h = weft_loop_carry(loop, none), *c = weft_loop_carry(loop, none), *h_now = h, *c_now = c;
  cell(p, x, &h_now, &c_now);
  weft_loop_next(loop, h, h_now);
  weft_loop_next(loop, c, c_now);
  weft_array *hs = weft_loop_all(loop, h_now);
  weft_loop_close(loop);
  weft_array *right = one_hot(weft_slice(text, 0, 1, LENGTH + 1, 1));
  weft_array *z = weft_log_softmax(weft_add(weft_matmul(hs, p[3]), p[4]), 2);
  return weft_neg(weft_div(weft_sum(weft_mul(z, right), WEFT_ALL), LENGTH * BATCH));
}

/* Noise [WRITTEN,PAGES,LETTERS] -> letters, the chance each had [WRITTEN,PAGES], memories [WRITTEN,PAGES,CELLS]. */
static void write_text(weft_array *const p[], weft_array *noise, weft_array *out[3]) {
  weft_array *none = weft_full(WEFT_F32, WEFT_DIMS(PAGES, CELLS), 0);
  weft_array *space = weft_full(WEFT_I32, WEFT_DIMS(PAGES), letter(' '));
  weft_loop *loop = weft_loop_open(NULL);
  weft_array *u = weft_loop_each(loop, noise), *last = weft_loop_carry(loop, space);
  weft_array *h = weft_loop_carry(loop, none), *c = weft_loop_carry(loop, none), *h_now = h, *c_now = c;
  cell(p, one_hot(last), &h_now, &c_now);
  weft_array *z = weft_log_softmax(weft_add(weft_matmul(h_now, p[3]), p[4]), 1);
  weft_array *drawn = weft_argmax(weft_sub(z, weft_log(weft_neg(weft_log(u)))), 1); /* each with its chance */
  weft_array *next = weft_cast(weft_squeeze(drawn, 1), WEFT_I32);
  weft_loop_next(loop, h, h_now);
  weft_loop_next(loop, c, c_now);
  weft_loop_next(loop, last, next);
  out[0] = weft_loop_all(loop, next);
  out[1] = weft_loop_all(loop, weft_exp(weft_squeeze(weft_take_along(z, 1, drawn), 1)));
  out[2] = weft_loop_all(loop, weft_tanh(c_now));
  weft_loop_close(loop);
}

/* Step t of Adam, from BATCH places where a sentence begins. p: parameters, then their two kinds of moments. */
static weft_status learn(weft_array *p[3 * N], float t, const char *corpus, float *loss) {
  static int32_t text[LENGTH + 1][BATCH];
  for (int k = 0; k < BATCH; k++) {
    const char *at = strchr(corpus + (int)((CORPUS - 2 * LENGTH) * uniform()), '.') + 1;
    for (int i = 0; i <= LENGTH; i++) text[i][k] = letter(at[i]);
  }
  weft_status status;
  WEFT_SCOPE(&status) { /* with t as an array, not as a number, all steps are one program */
    weft_array *new[3 * N], *g[N], *now = surprise(p, weft_from(WEFT_I32, WEFT_DIMS(LENGTH + 1, BATCH), text));
    weft_grad(now, N, p, g);
    memcpy(new, p, sizeof new);
    weft_array *step = weft_from(WEFT_F32, 0, NULL, &t);
    for (int i = 0; i < N; i++) adam(&new[i], &new[N + i], &new[2 * N + i], g[i], step, 0.01);
    for (int i = 0; i < 3 * N; i++) weft_update(p[i], new[i]);
    weft_fetch_to(now, loss);
  }
  return status;
}

/* Draws a line of what it writes after t steps, and tells how many of its sentences are right. */
static weft_status show(FILE *out, weft_array *const p[], int t, const char *corpus, int *n, int *n_right) {
  static float noise[WRITTEN * PAGES * LETTERS];
  static struct page page;
  for (int i = 0; i < WRITTEN * PAGES * LETTERS; i++) noise[i] = (float)(1 - uniform());
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *y[3];
    write_text(p, weft_from(WEFT_F32, WEFT_DIMS(WRITTEN, PAGES, LETTERS), noise), y);
    weft_fetch_to(y[0], &page.letter), weft_fetch_to(y[1], &page.chance);
    weft_fetch(y[2], WEFT_F32, page.memory, sizeof page.memory);
  }
  draw_page(out, &page, t, t == STEPS);
  count_sentences(&page, corpus, n, n_right);
  return status;
}

int main(int argc, char **argv) {
  static char corpus[CORPUS + 64];
  static float start[4 * CELLS * CELLS], loss, mean;
  double nats = 0;
  int n, n_right;
  for (size_t at = 0; at < CORPUS;) at += make_sentence(corpus + at, &nats);
  nats /= (double)strlen(corpus);
  weft_array *p[3 * N];
  for (int i = 0; i < 3 * N; i++) {
    for (int k = 0; k < 4 * CELLS * CELLS; k++) start[k] = i == 0 || i == 1 || i == 3 ? (float)(0.15 * normal()) : 0;
    p[i] = weft_from(WEFT_F32, 2, dims[i % N], start);
  }
  const char *path = argc > 1 ? argv[1] : "lstm.svg";
  FILE *out = picture_open(path, 940, 560);
  weft_status status = show(out, p, 0, corpus, &n, &n_right);
  for (int t = 1, next = 50; t <= STEPS && !status; t++) {
    status = learn(p, (float)t, corpus, &loss);
    mean += (loss - mean) * (t < 20 ? 1.f / (float)t : 0.05f);
    if (status || t < next) continue;
    status = show(out, p, t, corpus, &n, &n_right), next *= 2;
    printf("step %3d: %.3f nats a letter; %2d of %2d sentences it writes are right\n", t, mean, n_right, n);
  }
  if (status) return fprintf(stderr, "lstm: %s\n", weft_message()), 1;
  printf("The text itself has %.3f nats a letter.\n", nats);
  return picture_close(out, path) || !(mean < 1.15 * nats) || n_right < 0.85 * n;
}
