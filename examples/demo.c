/* demo.c -- demo [picture.svg]: a small network with RMSNorm learns to tell two spirals apart.
 *
 * A step of training is one scope: forward pass, gradient and Adam become one program, which runs when the scope closes
 * and changes the model all together or not at all. */
#define _GNU_SOURCE
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft_sugar.h>

enum { POINTS = 600, WIDTH = 32, STEPS = 1000, GRID = 90, N = 8 }; /* N parameters */

static const struct { const char *name; int rank; int64_t dims[2]; double scale, centre; } parameter[N] = {
  { "w1", 2, { 2, WIDTH }, 1.5, 0 },     { "b1", 1, { WIDTH }, 1, 0 }, { "gain1", 1, { WIDTH }, 0, 1 },
  { "w2", 2, { WIDTH, WIDTH }, 0.3, 0 }, { "b2", 1, { WIDTH }, 0, 0 }, { "gain2", 1, { WIDTH }, 0, 1 },
  { "w3", 2, { WIDTH, 1 }, 0.2, 0 },     { "b3", 1, { 1 }, 0, 0 },
};
union model { struct { weft_array *p[N], *m[N], *v[N]; }; weft_array *all[3 * N]; }; /* parameters, moments for Adam */
struct data { float at[POINTS][2], side[POINTS]; weft_array *x, *y; }; /* x: [POINTS,2], y: [POINTS,1], 1 or -1 */

/* [n,2] -> [n,1]: positive on one spiral, negative on the other. */
static weft_array *network(weft_array *const p[], weft_array *x) {
  weft_array *h1 = weft_rms_norm(weft_tanh(weft_add(weft_matmul(x, p[0]), p[1])), p[2], 1e-5);
  weft_array *h2 = weft_rms_norm(weft_tanh(weft_add(weft_matmul(h1, p[3]), p[4])), p[5], 1e-5);
  return weft_add(weft_matmul(h2, p[6]), p[7]);
}

/* mean log(1 + e^-zy), written so that nothing overflows. */
static weft_array *loss_of(weft_array *const p[], weft_array *x, weft_array *y) {
  weft_array *margin = weft_mul(network(p, x), y), *tail = weft_log1p(weft_exp(weft_neg(weft_abs(margin))));
  return weft_mean(weft_add(weft_maximum(weft_neg(margin), 0), tail), WEFT_ALL);
}

/* The model after step t of Adam, as expressions. */
static union model better(const union model *old, weft_array *loss, int t) {
  union model new;
  weft_array *g[N];
  double rate = 0.01 * (STEPS - t + 1) / STEPS / (1 - pow(0.9, t)), unbias = 1 / (1 - pow(0.99, t));
  weft_grad(loss, N, old->p, g);
  for (int i = 0; i < N; i++) {
    new.m[i] = weft_add(weft_mul(old->m[i], 0.9), weft_mul(g[i], 0.1));
    new.v[i] = weft_add(weft_mul(old->v[i], 0.99), weft_mul(weft_mul(g[i], g[i]), 0.01));
    weft_array *size = weft_add(weft_sqrt(weft_mul(new.v[i], unbias)), 1e-8);
    new.p[i] = weft_sub(old->p[i], weft_mul(weft_div(new.m[i], size), rate));
  }
  return new;
}

static weft_status train_step(union model *model, const struct data *d, int t, float *loss_now) {
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *loss = loss_of(model->p, d->x, d->y);
    union model new = better(model, loss, t);
    for (int i = 0; i < 3 * N; i++) weft_update(model->all[i], new.all[i]);
    weft_fetch_to(loss, loss_now);
  }
  return status;
}

/* The trained network as a function of any number of points: the probability of one side. */
static weft_function *classifier(const union model *model) {
  weft_scope *body = weft_scope_open();
  weft_array *x = weft_input(WEFT_F32, WEFT_DIMS(WEFT_ANY, 2)), *y = weft_sigmoid(network(model->p, x));
  return weft_compile(body, 1, &x, 1, &y);
}

static double uniform(void) { /* in [-1, 1), the same on every machine */
  static uint64_t state = 1;
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (double)(state >> 11) / (1ull << 52) - 1;
}

static weft_array *random_like(int i, weft_dtype dtype, double scale, double centre) { /* parameter i */
  double values[WIDTH * WIDTH];
  for (int k = 0; k < WIDTH * WIDTH; k++) values[k] = centre + scale * uniform();
  return weft_cast(weft_from(WEFT_F64, parameter[i].rank, parameter[i].dims, values), dtype);
}

static void make_model(union model *model) {
  for (int i = 0; i < N; i++) {
    model->p[i] = random_like(i, WEFT_F32, parameter[i].scale, parameter[i].centre);
    model->m[i] = weft_full(WEFT_F32, parameter[i].rank, parameter[i].dims, 0);
    model->v[i] = weft_full(WEFT_F32, parameter[i].rank, parameter[i].dims, 0);
  }
}

static void make_spirals(struct data *d) {
  for (int i = 0; i < POINTS; i++) {
    double side = i % 2 ? 1 : -1, r = 0.08 + 0.9 * i / POINTS, angle = 10 * r;
    d->at[i][0] = (float)(side * r * cos(angle) + 0.02 * uniform());
    d->at[i][1] = (float)(side * r * sin(angle) + 0.02 * uniform());
    d->side[i] = (float)side;
  }
  d->x = weft_from(WEFT_F32, WEFT_DIMS(POINTS, 2), d->at);
  d->y = weft_from(WEFT_F32, WEFT_DIMS(POINTS, 1), d->side);
}

static weft_array *make_grid(void) { /* [GRID*GRID,2]: the middles of the picture's cells, row by row from the top */
  weft_array *cells = weft_full(WEFT_F32, WEFT_DIMS(GRID, GRID, 1), 0);
  weft_array *right = weft_iota(cells, 1), *up = weft_sub(GRID - 1, weft_iota(cells, 0));
  weft_array *xy = weft_mul(weft_sub(weft_concat(2, WEFT_ARRAYS(right, up)), GRID / 2. - 0.5), 2.25 / GRID);
  return weft_reshape(xy, WEFT_DIMS(WEFT_ANY, 2));
}

static weft_status show_kernels(const union model *model, const struct data *d) {
  weft_cost cost;
  weft_scope *scope = weft_scope_open();
  union model new = better(model, loss_of(model->p, d->x, d->y), 2);
  weft_status status = weft_plan(3 * N, new.all, &cost);
  const char *text = weft_show(3 * N, new.all, "kernels");
  for (const char *k = text, *end; k; k = end ? end + 1 : NULL) { /* each text once, though it serves several arrays */
    end = strstr(k, "\nkernel ");
    size_t bytes = end ? (size_t)(end - k) : strlen(k);
    if (!memmem(text, (size_t)(k - text), k, bytes)) printf("%.*s\n", (int)bytes, k);
  }
  if (!status) printf("One step: %d kernels, with the texts above.\n\n", cost.kernels);
  weft_scope_discard(scope);
  return status;
}

/* The slope of the loss along a random direction u of each parameter: sum g u against (f(p + hu) - f(p - hu)) / 2h. */
static weft_status check_gradient(const union model *model, const struct data *d, double *worst) {
  const double h = 1e-5;
  double slope[N], difference[N];
  weft_status status;
  WEFT_SCOPE(&status) {
    weft_array *p[N], *g[N], *x = weft_cast(d->x, WEFT_F64), *y = weft_cast(d->y, WEFT_F64);
    for (int i = 0; i < N; i++) p[i] = weft_cast(model->p[i], WEFT_F64);
    weft_grad(loss_of(p, x, y), N, p, g);
    for (int i = 0; i < N; i++) {
      weft_array *here = p[i], *u = random_like(i, WEFT_F64, 1, 0), *up, *down;
      p[i] = weft_add(here, weft_mul(u, h)), up = loss_of(p, x, y);
      p[i] = weft_sub(here, weft_mul(u, h)), down = loss_of(p, x, y), p[i] = here;
      weft_fetch_to(weft_sum(weft_mul(g[i], u), WEFT_ALL), &slope[i]);
      weft_fetch_to(weft_div(weft_sub(up, down), 2 * h), &difference[i]);
    }
  }
  if (status) return status;
  printf("Slope of the loss        gradient   finite difference\n");
  for (int i = 0; i < N; i++) {
    printf("  along %-6s %+18.12f  %+18.12f\n", parameter[i].name, slope[i], difference[i]);
    *worst = fmax(*worst, fabs(slope[i] - difference[i]));
  }
  return printf("  largest difference %.1e\n\n", *worst), WEFT_OK;
}

static void show_progress(int t, float loss) {
  static const char bar[] = "########################################";
  if (isatty(STDOUT_FILENO)) printf("\r[%-40.*s] step %d, loss %.6f", 40 * t / STEPS, bar, t, loss), fflush(stdout);
  else if (t % (STEPS / 10) == 0) printf("step %d, loss %.6f\n", t, loss);
}

static int draw(const char *path, const float chance[], const struct data *d, const float loss[]) {
  FILE *out = fopen(path, "w");
  if (!out) return -1;
  fprintf(out, "<svg xmlns='http://www.w3.org/2000/svg' width='860' height='400' font-family='sans-serif'>\n"
               "<rect width='860' height='400' fill='#fff'/>\n");
  for (int i = 0; i < GRID * GRID; i++) /* blue at 0, orange at 1 */
    fprintf(out, "<rect x='%d' y='%d' width='4' height='4' fill='rgb(%.0f,160,%.0f)'/>\n", 20 + 4 * (i % GRID),
            20 + 4 * (i / GRID), 100 + 150 * chance[i], 235 - 155 * chance[i]);
  for (int i = 0; i < POINTS; i++)
    fprintf(out, "<circle cx='%.1f' cy='%.1f' r='2' fill='%s'/>\n", 200 + 160 * d->at[i][0], 200 - 160 * d->at[i][1],
            d->side[i] > 0 ? "#803000" : "#103070");
  for (int e = 0; e >= -5; e--) /* the loss, on a logarithmic scale */
    fprintf(out, "<path d='M450 %d h390' stroke='#ddd'/><text x='405' y='%d'>1e%d</text>", 30 - 64 * e, 35 - 64 * e, e);
  fprintf(out, "<text x='450' y='376'>loss, %d steps</text>\n<polyline fill='none' stroke='#103070' points='", STEPS);
  for (int t = 0; t < STEPS; t++) fprintf(out, "%f,%f ", 450 + 390. * t / STEPS, 30 - 64 * log10(fmax(loss[t], 1e-5)));
  fprintf(out, "'/>\n</svg>\n");
  return fclose(out);
}

static int failed(const char *where) { return fprintf(stderr, "demo: %s: %s\n", where, weft_message()), 1; }

int main(int argc, char **argv) {
  static float loss[STEPS], chance[GRID * GRID], share;
  static struct data data;
  union model model;
  double worst = 0;
  make_spirals(&data);
  make_model(&model);
  if (train_step(&model, &data, 1, &loss[0]) || show_kernels(&model, &data)) return failed("the first step");
  if (check_gradient(&model, &data, &worst)) return failed("the gradient");
  for (int t = 2; t <= STEPS; t++) {
    if (train_step(&model, &data, t, &loss[t - 1])) return failed("training");
    show_progress(t, loss[t - 1]);
  }
  weft_function *f = classifier(&model);
  weft_array *grid = make_grid(), *on_grid, *on_points;
  weft_call(f, 1, &grid, 1, &on_grid);
  weft_call(f, 1, &data.x, 1, &on_points);
  weft_array *is_right = weft_cast(weft_eq(weft_gt(on_points, 0.5), weft_gt(data.y, 0)), WEFT_F32);
  if (weft_read_to(weft_mean(is_right, WEFT_ALL), &share) || weft_read(on_grid, WEFT_F32, chance, sizeof chance))
    return failed("the classifier");
  const char *path = argc > 1 ? argv[1] : "demo.svg";
  if (draw(path, chance, &data, loss)) return perror(path), 1;
  printf("\n%.1f%% of the points are on the right side; %s shows it.\n", 100 * share, path);
  return worst > 1e-7 || share < 0.95;
}
