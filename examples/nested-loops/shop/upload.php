<?php
$name = basename($_FILES['photo']['name']);
move_uploaded_file($_FILES['photo']['tmp_name'], "/srv/shop/photos/$name");
