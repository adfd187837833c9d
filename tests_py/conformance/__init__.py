"""TensorFlow's behavior, case by case.

A test's name or id has the number of its case: ``test_case_024_...``, ``case 57``.
"""
