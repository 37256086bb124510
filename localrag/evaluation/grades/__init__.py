"""What a model's grades are worth: labelled questions, measuring a model with them, fitting."""
