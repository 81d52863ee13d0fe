/* network.h -- what a sorting network compares with what: Batcher's merge exchange (Knuth, 5.2.2 M), for any number of places,
 * about n log2(n)^2 / 4 exchanges. That does not depend on the entries. It is not stable: entries whose order matters differ. */
#ifndef WEFT_NETWORK_H
#define WEFT_NETWORK_H

/* EXCHANGE(i, k) for all pairs of places i < k < n of the network. A round takes runs of p places, each with the one d after it. */
#define NETWORK(n, EXCHANGE)                                                                                   \
  int64_t top = 1;                                                                                             \
  while (2 * top < n) top *= 2;                                                                                \
  for (int64_t p = top; p > 0; p /= 2)                                                                         \
    for (int64_t q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {                                           \
      for (int64_t begin = r; begin + d < n; begin += 2 * p)                                                   \
        for (int64_t i = begin, end = begin + p < n - d ? begin + p : n - d; i < end; i++) EXCHANGE(i, i + d); \
      if (q == p) break;                                                                                       \
    }

#endif
