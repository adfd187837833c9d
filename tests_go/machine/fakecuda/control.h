/* Functions of the fake driver for tests, called through pointers that attach sets. */
#ifndef FAKECUDA_CONTROL_H
#define FAKECUDA_CONTROL_H

/* attach finds the library that the process has loaded, or would load. Returns the loader's error message, or NULL. */
const char *attach(void);

void control_restart(void);
void control_clear(void);
void control_fail(const char *name, unsigned long nth, int result);
void control_delay(unsigned us);
unsigned long control_count(const char *name);
unsigned long control_fired(void);
const char *control_fired_name(void);
int control_live(const char *what);
int control_depth(void);

/* The calling thread's own use of the driver, as another library would use it. */
int control_retain(int device, void **context);
int control_release(int device);
int control_create(int device, void **context);
int control_destroy(void *context);
void *control_current(void);
int control_set_current(void *context);
int control_alloc(unsigned long long bytes, unsigned long long *addr);
int control_copy(int device, unsigned long long addr);
int control_free(unsigned long long addr);
int control_begin_capture(unsigned long long stream, int mode);
int control_end_capture(unsigned long long stream, unsigned long long *graph);
int control_instantiate(unsigned long long graph, unsigned long long *exec);
int control_launch(unsigned long long exec, unsigned long long stream);
int control_graph_destroy(unsigned long long graph);
int control_exec_destroy(unsigned long long exec);
int control_graph_pieces(unsigned long long graph);

#endif
