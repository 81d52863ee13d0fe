/* reader.h -- background threads that bring data in; a few, started when there is something to read, ended when idle. */
#ifndef WEFT_READER_H
#define WEFT_READER_H
#include <stdbool.h>

struct errand {              /* lies in the object it is about; begins as {0} */
  void (*run)(struct errand *);
  struct errand *before, *after;
  bool is_queued;
};

bool reader_add(struct errand *);      /* false: no thread can be had, and nothing is queued */
bool reader_withdraw(struct errand *); /* true: it was waiting, and will not be run */
void reader_after_fork(void);          /* in the child: nothing is queued, and no thread is there; its lock held */
void reader_stop(void);                /* runs what is queued, then ends the threads (tests, leak checkers) */

#endif
