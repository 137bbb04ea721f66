"""Daily CatBoost models, and networks, trained with privatised labels."""
