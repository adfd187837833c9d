/* Functions of the fake cuBLAS for tests, called through pointers that attach_cublas sets. */
#ifndef FAKECUBLAS_CONTROL_H
#define FAKECUBLAS_CONTROL_H

/* attach_cublas finds the library that the process has loaded. Returns the loader's error message, or NULL. */
const char *attach_cublas(const char *soname);

const char *cublas_complaint(void);
int cublas_live(void);

#endif
